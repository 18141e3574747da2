#include "backends/npu/machine/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace liveshape::npu {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// machines/edge.yaml with one piece changed.
std::string Error(const std::string& from, const std::string& to) {
  std::string text = Text("machines/edge.yaml");
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  auto machine = ReadMachine(text, "m.yaml");
  EXPECT_FALSE(machine.ok()) << to;
  return machine.status().message();
}

TEST(Reader, ReadsTheMachinesOfTheTree) {
  const auto tpu = ReadMachineFile("machines/tpuv3.yaml");
  ASSERT_TRUE(tpu.ok()) << tpu.status().message();
  EXPECT_EQ(tpu->frequency_mhz, 940);
  EXPECT_EQ(tpu->array.count, 2);
  EXPECT_EQ(tpu->scratchpad_bytes, 16 << 20);
  EXPECT_EQ(tpu->noc.latency, 10);
  EXPECT_EQ(tpu->PeakBytesPerCycle(), 512);  // 481 GB/s
  for (const char* path : {"machines/edge.yaml", "machines/quad.yaml"}) {
    const auto machine = ReadMachineFile(path);
    EXPECT_TRUE(machine.ok()) << machine.status().message();
  }
  EXPECT_THAT(ReadMachineFile("machines/none.yaml").status().message(), HasSubstr("cannot read"));
}

TEST(Reader, HostileYamlIsAnErrorWithItsPlace) {
  const auto error = [](const std::string& text) {
    auto machine = ReadMachine(text, "m.yaml");
    EXPECT_FALSE(machine.ok()) << text;
    return machine.status().message();
  };
  EXPECT_THAT(error(""), HasSubstr("m.yaml:1:1: there is no document"));
  EXPECT_THAT(error(Text("machines/edge.yaml") + "---\nname: other\n"),
              HasSubstr("a second document"));
  EXPECT_THAT(error("&all {name: *all}"), HasSubstr("has no `frequency_mhz`"));
  EXPECT_THAT(error("name: *nobody"), HasSubstr("m.yaml:1:7: not YAML"));
  EXPECT_THAT(error("name: x\n\xff\xfe: 1"), HasSubstr("not YAML"));
  EXPECT_THAT(error(std::string("\0\xff", 2)), HasSubstr("not YAML"));
  EXPECT_THAT(error("&a [*a, *a]"), HasSubstr("should be a map"));
  EXPECT_THAT(error("? [a, b]\n: 1"), HasSubstr("is not a name"));
  EXPECT_THAT(error("\n" + std::string(1000, '[')),
              HasSubstr("m.yaml:2:65: more than 64 brackets"));
  EXPECT_THAT(error(std::string(1 << 20, ' ')), HasSubstr("1048576 bytes"));
}

TEST(Reader, SaysLineAndColumn) {
  EXPECT_THAT(Error("  lanes: 32", "  lames: 32"),
              StartsWith("m.yaml:21:3: unknown key `lames` in vector: there are lanes, simple"));
  EXPECT_THAT(Error("  lanes: 32", "  lanes: 0"),
              StartsWith("m.yaml:21:10: vector.lanes is 0: should be 1 to 65536"));
  EXPECT_THAT(Error("  lanes: 32", "  lanes: many"), HasSubstr("should be an integer"));
  EXPECT_THAT(Error("  lanes: 32", "  lanes: [1"), HasSubstr("not YAML"));
  EXPECT_THAT(Error("cores: 1", "cores: 1\ncores: 2"), HasSubstr("key `cores` comes twice"));
  EXPECT_THAT(Error("cores: 1", ""), HasSubstr("the file has no `cores`"));
  EXPECT_THAT(Error("  hash: true", "  hash: 1"), HasSubstr("true or false"));
  EXPECT_THAT(Error("  channels: 1", "  channels: 3"), HasSubstr("power of two"));
}

TEST(Reader, RefusesWhatNoMachineCanBe) {
  EXPECT_THAT(Error("tRC: 55", "tRC: 54"), HasSubstr("tRC 54 is less than tRAS 39 + tRP 16"));
  EXPECT_THAT(Error("tCCD_S: 4", "tCCD_S: 3"), HasSubstr("a burst takes 4 clocks"));
  EXPECT_THAT(Error("tRTW: 8", "tRTW: 3"), HasSubstr("should be 4 or more"));
  EXPECT_THAT(Error("tREFI: 9360", "tREFI: 400"), HasSubstr("leaves no time"));
  EXPECT_THAT(Error("interleave_bytes: 256", "interleave_bytes: 32"), HasSubstr("a burst of 64"));
  EXPECT_THAT(Error("tRRD_L: 6", "tRRD_L: 3"), HasSubstr("no less than"));
}

TEST(Attributes, AreWrittenAndReadAgain) {
  KernelAttributes attributes;
  attributes.kernel = "k3: \"add\"\n";
  attributes.shape_args = {1000, -1};
  const std::pair<std::string, int64_t> tensors[] = {
      {"x", 4000}, {"y", 0}, {"out\t\u2028\u00e9", 5000}};
  auto addresses = AssignAddresses(tensors, 4096);
  ASSERT_TRUE(addresses.ok());
  attributes.address_info = *addresses;
  EXPECT_EQ(attributes.address_info[2].base, 8192);
  const auto again = ReadAttributes(ToYaml(attributes), "a.yaml");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, attributes);
  const auto empty = ReadAttributes(ToYaml({}), "a.yaml");
  ASSERT_TRUE(empty.ok()) << empty.status().message();
  EXPECT_EQ(*empty, KernelAttributes());
}

TEST(Attributes, BadOnesAreRefused) {
  const auto error = [](const char* yaml) {
    return ReadAttributes(yaml, "a.yaml").status().message();
  };
  EXPECT_THAT(error("kernel: k\nshape_args: [x]\naddress_info: []"), StartsWith("a.yaml:2:14: "));
  EXPECT_THAT(error("kernel: k\nshape_args: 3\naddress_info: []"), HasSubstr("should be a list"));
  EXPECT_THAT(error("kernel: k\nshape_args: []\naddress_info: [{tensor: x, base: -1, bytes: 1}]"),
              HasSubstr("base is -1"));
  EXPECT_THAT(error("kernel: k\nshape_args: []\nsizes: []"), HasSubstr("unknown key `sizes`"));
  const std::pair<std::string, int64_t> huge[] = {{"x", INT64_MAX}};
  EXPECT_FALSE(AssignAddresses(huge, 0).ok());
}

}  // namespace
}  // namespace liveshape::npu
