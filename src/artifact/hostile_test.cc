// Bytes that no writer of ours made: an error or an equal graph, never a crash.
#include <gtest/gtest.h>

#include <random>

#include "artifact/load.h"
#include "artifact/testing.h"
#include "artifact/write.h"
#include "ir/op.h"
#include "ops/ops.h"

namespace liveshape::artifact {
namespace {

std::vector<std::byte> Serialized(const ir::Graph& graph) {
  auto bytes = SerializeArtifact(graph);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return *std::move(bytes);
}

void ExpectRefused(std::span<const std::byte> bytes, Code code, std::string_view part) {
  auto graph = LoadGraph(bytes, nullptr);
  ASSERT_FALSE(graph.ok()) << "expected: " << part;
  EXPECT_EQ(graph.status().code(), code) << graph.status().message();
  EXPECT_NE(graph.status().message().find(part), std::string::npos) << graph.status().message();
}
void ExpectRefused(const ir::Graph& graph, std::string_view part) {
  ExpectRefused(Serialized(graph), Code::kDataLoss, part);
}

TEST(HostileArtifactTest, TruncationAtEveryByteIsRefused) {
  const auto bytes = Serialized(*SampleGraph());
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly that size, so that a sanitizer sees a read past its end.
    const std::vector<std::byte> part(bytes.begin(), bytes.begin() + size);
    auto graph = LoadGraph(part, nullptr);
    ASSERT_FALSE(graph.ok()) << size;
    ASSERT_EQ(graph.status().code(), Code::kDataLoss) << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  ExpectRefused(longer, Code::kDataLoss, "bytes after the end");
}

TEST(HostileArtifactTest, EveryFlippedBitIsRefusedOrHarmless) {
  for (const auto& graph : {TinyGraph(), SampleGraph()}) {
    auto bytes = Serialized(*graph);
    const Header header = Header::Decode(std::span(bytes).first<kHeaderSize>());
    const std::string expected = ir::Print(*graph);
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        const std::byte flipped{static_cast<uint8_t>(1u << bit)};
        bytes[at] ^= flipped;
        auto loaded = LoadGraph(bytes, nullptr);
        // Padding and constants are outside the checksum.
        ASSERT_EQ(loaded.ok(), at >= kHeaderSize + header.graph_size) << at << " bit " << bit;
        if (loaded.ok() && bit == 0) {
          ASSERT_EQ(ir::Print(**loaded), expected);
        }
        bytes[at] ^= flipped;
      }
    }
  }
}

// Behind a checksum that is made right again, so that each reaches the checks it is about.
TEST(HostileArtifactTest, ChangedGraphsAreRefusedOrHold) {
  std::mt19937 random(1);
  int loaded = 0;
  for (const auto& graph : {TinyGraph(), SampleGraph()}) {
    const auto bytes = Serialized(*graph);
    const Header header = Header::Decode(std::span(bytes).first<kHeaderSize>());
    for (int round = 0; round < 20000; ++round) {
      auto changed = bytes;
      const int changes = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < changes; ++i) {
        auto& byte = changed[kHeaderSize + random() % header.graph_size];
        byte = random() % 2 ? static_cast<std::byte>(random())
                            : byte ^ std::byte{static_cast<uint8_t>(1u << (random() % 8))};
      }
      ASSERT_TRUE(Reseal(changed));
      auto result = LoadGraph(changed, nullptr);
      if (!result.ok()) continue;
      ++loaded;
      ASSERT_TRUE(ir::Verify(**result).ok());
      (void)ir::Print(**result);
    }
  }
  EXPECT_GT(loaded, 100);  // names and padding may change
}

TEST(HostileArtifactTest, NewerVersionsAreRefusedByName) {
  const auto bytes = Serialized(*TinyGraph());
  auto with = [&](uint16_t major, uint16_t minor) {
    auto changed = bytes;
    Header header = Header::Decode(std::span(bytes).first<kHeaderSize>());
    header.major = major;
    header.minor = minor;
    header.checksum = ChecksumOf(header, std::span(bytes).subspan(kHeaderSize, header.graph_size));
    std::ranges::copy(header.Encode(), changed.begin());
    return changed;
  };
  EXPECT_TRUE(LoadGraph(with(kMajor, kMinor), nullptr).ok());
  ExpectRefused(with(kMajor + 1, 0), Code::kUnsupported, "artifact format 2.0 is newer than 1.");
  ExpectRefused(with(kMajor, kMinor + 1), Code::kUnsupported, "update liveshape");
  ExpectRefused(with(0, 9), Code::kDataLoss, "never existed");
}

TEST(HostileArtifactTest, OtherFilesAreRefused) {
  ExpectRefused({}, Code::kDataLoss, "not a liveshape artifact");
  const std::vector<std::byte> zeros(4096);
  ExpectRefused(zeros, Code::kDataLoss, "not a liveshape artifact");
  auto empty = std::vector<std::byte>(Serialized(*TinyGraph()));
  empty.resize(kHeaderSize);
  ASSERT_TRUE(Reseal(empty));
  ExpectRefused(empty, Code::kDataLoss, "not a well-formed FlatBuffer");
}

// The writer believes its graph, so a broken graph makes a well-formed file that says wrong things.
TEST(HostileArtifactTest, WrongContentsAreRefusedByName) {
  auto graph = SampleGraph();
  graph->constants[0].data = graph->constants[0].data.first(64);
  ExpectRefused(*graph, "constant `head.weight` [5, 8] has 64 bytes, expected 512");

  graph = SampleGraph();
  graph->states[0].initial = graph->states[0].initial.first(8);
  ExpectRefused(*graph, "state `cache` [4, 8] has 8 initial bytes, expected 128");

  graph = SampleGraph();
  const ir::OpDef unknown{.name = "frobnicate", .infer = ops::kSoftmax.infer};
  graph->nodes[3].op = &unknown;
  ExpectRefused(*graph, "node 3: `turned` is a `frobnicate`, an op that this build does not know");

  graph = SampleGraph();
  graph->nodes[0].attrs.push_back(graph->nodes[0].attrs[0]);
  ExpectRefused(*graph, "two attributes `eps`");

  graph = SampleGraph();
  graph->nodes[0].attrs.clear();
  ExpectRefused(*graph, "node `norm` (rms_norm, model.py:12): attribute `eps` is missing");

  graph = SampleGraph();
  graph->outputs[0].scalar = graph->outputs[2].scalar;
  ExpectRefused(*graph, "output 0: must be a tensor or an integer");

  graph = SampleGraph();
  graph->inputs[1].value = graph->inputs[0].value;
  ExpectRefused(*graph, "input 1: value 0 belongs to something else already");

  graph = SampleGraph();
  std::swap(graph->nodes[0], graph->nodes[1]);
  ExpectRefused(*graph, "which nothing before it makes");

  graph = SampleGraph();
  graph->values[graph->constants[0].value].type.dims[0] = graph->table().SymbolAt(0);
  ExpectRefused(*graph, "constant 0: has the dim S, not a number");

  graph = SampleGraph();
  graph->host_values[0].symbol = 77;
  ExpectRefused(*graph, "symbol 77 of 4");

  graph = SampleGraph();
  graph->constants[2].layout = ir::ConstantLayout::kPanel16;
  ExpectRefused(*graph, "constant `scale` [8] cannot be stored in its layout");

  graph = SampleGraph();
  graph->constants[2].encoding = ir::Encoding::kQ8SymG32;
  ExpectRefused(*graph, "constant `scale` [8] cannot be stored in its layout");

  graph = SampleGraph();
  graph->constants[0].encoding = ir::Encoding::kQ8SymG32;
  ExpectRefused(*graph, "constant `head.weight` [5, 8] has 512 bytes, expected 544");

  graph = SampleGraph();
  graph->constants[0].encoding = static_cast<ir::Encoding>(3);
  ExpectRefused(*graph, "has encoding 3 and layout 1, of which one does not exist");
}

TEST(HostileArtifactTest, ExpressionsBeyondTheLimitsAreNotWritten) {
  auto graph = TinyGraph();
  sym::Table& table = graph->table();
  sym::Expr deep = table.SymbolAt(0);
  for (int i = 0; i < 1000; ++i) deep = FloorDiv(deep, table.Int(3)) * 5 + 1;
  graph->outputs.push_back({.name = "deep", .scalar = deep});
  EXPECT_EQ(SerializeArtifact(*graph).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace liveshape::artifact
