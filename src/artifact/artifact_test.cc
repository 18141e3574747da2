#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "artifact/load.h"
#include "artifact/testing.h"
#include "artifact/write.h"
#include "base/memory.h"
#include "liveshape_generated.h"
#include "ops/ops.h"

namespace liveshape::artifact {
namespace {

using sym::Expr;

std::vector<std::byte> Serialized(const ir::Graph& graph) {
  auto bytes = SerializeArtifact(graph);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return *std::move(bytes);
}

std::unique_ptr<ir::Graph> Loaded(std::span<const std::byte> bytes, LoadInfo* info = nullptr) {
  auto graph = LoadGraph(bytes, nullptr, info);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return *std::move(graph);
}

bool Same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::ranges::equal(a, b);
}

// Bytes at a chosen distance from a 64-byte boundary.
class Placed {
 public:
  Placed(std::span<const std::byte> bytes, size_t shift) : memory_(bytes.size() + 2 * kAlignment) {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    span_ = std::span(memory_).subspan(AlignUp(at) - at + shift, bytes.size());
    std::ranges::copy(bytes, span_.begin());
  }
  std::span<const std::byte> bytes() const { return span_; }

 private:
  std::vector<std::byte> memory_;
  std::span<std::byte> span_;
};

class TemporaryFile {
 public:
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ =
      std::filesystem::temp_directory_path() /
      fmt::format("liveshape_artifact_test_{}.live", static_cast<const void*>(this));
};

TEST(ArtifactTest, EverythingComesBackAsItWas) {
  const auto graph = SampleGraph();
  ASSERT_TRUE(ir::Verify(*graph).ok()) << ir::Verify(*graph).message();
  const auto bytes = Serialized(*graph);
  LoadInfo info;
  const auto loaded = Loaded(bytes, &info);
  EXPECT_EQ(ir::Print(*loaded), ir::Print(*graph));
  EXPECT_EQ(Serialized(*loaded), bytes) << "writing what was read gives another file";
  EXPECT_EQ(info.major, kMajor);
  EXPECT_EQ(info.producer.substr(0, 10), "liveshape ");

  ASSERT_EQ(loaded->constants.size(), graph->constants.size());
  for (size_t i = 0; i < graph->constants.size(); ++i) {
    EXPECT_TRUE(Same(loaded->constants[i].data, graph->constants[i].data)) << i;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(loaded->constants[i].data.data()) % kAlignment, 0u);
  }
  for (size_t i = 0; i < graph->states.size(); ++i)
    EXPECT_TRUE(Same(loaded->states[i].initial, graph->states[i].initial)) << i;
  for (size_t i = 0; i < graph->nodes.size(); ++i)
    EXPECT_EQ(loaded->nodes[i].op, graph->nodes[i].op);
}

TEST(ArtifactTest, TiedWeightsAreStoredOnceAndComeBackTied) {
  const auto graph = SampleGraph();
  LoadInfo info;
  const auto loaded = Loaded(Serialized(*graph), &info);
  EXPECT_EQ(loaded->constants[0].data.data(), loaded->constants[1].data.data());
  EXPECT_EQ(info.constant_bytes, 512u + 576 + 128 + 64);  // tied, rows, cache, count
}

TEST(ArtifactTest, ValuesThatNothingMakesAreLeftOut) {
  auto graph = TinyGraph();
  const auto before = Serialized(*graph);
  graph->values.insert(graph->values.begin() + 1, ir::Value{.name = "dead"});
  for (ir::Node& node : graph->nodes)
    for (ir::ValueId& id : node.outputs) ++id;
  graph->outputs[0].value = 2;
  EXPECT_EQ(Serialized(*graph), before);
}

TEST(ArtifactTest, HundredsOfSymbols) {
  ir::Graph graph;
  sym::Table& table = graph.table();
  Expr sum = table.Int(0);
  for (int i = 0; i < 400; ++i) {
    const Expr s = table.Symbol({.name = fmt::format("s{}", i), .lo = 1, .hi = i + 1});
    const ir::ValueId x = graph.AddInput(fmt::format("x{}", i), {DType::kF16, {s}});
    graph.outputs.push_back({.name = fmt::format("y{}", i), .value = x});
    sum = sum + s * i;
  }
  graph.outputs.push_back({.name = "sum", .scalar = sum});
  const auto loaded = Loaded(Serialized(graph));
  EXPECT_EQ(ir::Print(*loaded), ir::Print(graph));
}

TEST(ArtifactTest, MemoryThatIsNotAlignedIsCopiedAndCounted) {
  const auto graph = SampleGraph();
  const auto bytes = Serialized(*graph);
  for (size_t shift : {0, 1, 4, 8, 32, 63}) {
    const Placed placed(bytes, shift);
    LoadInfo info;
    const auto loaded = Loaded(placed.bytes(), &info);
    EXPECT_EQ(info.copied_constant_bytes, shift == 0 ? 0 : info.constant_bytes);
    EXPECT_TRUE(Same(loaded->constants[0].data, graph->constants[0].data));
    const auto* begin = placed.bytes().data();
    const auto* data = loaded->constants[0].data.data();
    EXPECT_EQ(data >= begin && data < begin + bytes.size(), shift == 0);
  }
}

TEST(ArtifactTest, AFileIsStreamedAndItsSourceForgotten) {
  const TemporaryFile file;
  auto graph = TinyGraph();
  const std::vector<std::byte> big((3 << 20) + 5, std::byte{42});
  graph->AddConstant({.name = "big", .dtype = DType::kU8, .dims = {(3 << 20) + 5}, .data = big});
  size_t forgotten = 0, largest = 0;
  const Status status = WriteArtifact(*graph, file.path(), [&](std::span<const std::byte> piece) {
    EXPECT_EQ(piece.data(), big.data() + forgotten);
    forgotten += piece.size();
    largest = std::max(largest, piece.size());
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(forgotten, big.size());
  EXPECT_LE(largest, size_t{1} << 20);

  auto mapped = MappedFile::Open(file.path());
  ASSERT_TRUE(mapped.ok());
  EXPECT_TRUE(Same((*mapped)->bytes(), Serialized(*graph)));
  auto artifact = Artifact::Load(file.path());
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->copied_constant_bytes(), 0u);
  EXPECT_TRUE(Same((*artifact)->graph().constants[0].data, big));

  auto missing = Artifact::Load(file.path() + ".not");
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
}

TEST(ArtifactTest, APackedExternalConstantIsGivenAsItIsStored) {
  auto graph = SampleGraph();
  ir::Constant& rows = graph->constants[4];
  ASSERT_EQ(rows.name, "rows.weight");
  alignas(64) std::byte stored[2 * 288];
  std::copy(rows.data.begin(), rows.data.end(), stored);
  rows.external = "key", rows.data = {}, rows.owner = nullptr;
  const auto bytes = Serialized(*graph);
  alignas(64) float scale[8] = {};
  auto load = [&](const TensorRef& key) {
    return Artifact::Load(
        bytes, nullptr,
        {.external_constants = {{"given.scale", TensorRef::Of(scale, {8})}, {"key", key}}});
  };
  for (const TensorRef& wrong : {TensorRef{DType::kF32, stored, {3, 40}},
                                 {DType::kU8, stored, {575}},
                                 {DType::kI8, stored, {576}}}) {
    const Status status = load(wrong).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("as they are stored (q4_sym_g32, panel16): u8[576]"),
              std::string::npos)
        << status.message();
  }
  auto loaded = load({DType::kU8, stored, {576}});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const ir::Constant& bound = (*loaded)->graph().constants[4];
  EXPECT_EQ(bound.data.data(), stored);
  EXPECT_EQ(bound.encoding, ir::Encoding::kQ4SymG32);
}

TEST(ArtifactTest, ExternalConstantsAreBoundByName) {
  const auto bytes = Serialized(*SampleGraph());
  alignas(64) float scale[9] = {1, 2, 3};
  auto load = [&](std::map<std::string, TensorRef> given) {
    return Artifact::Load(bytes, nullptr, {.external_constants = std::move(given)});
  };
  auto expect = [&](std::map<std::string, TensorRef> given, std::string_view part) {
    const Status status = load(std::move(given)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  expect({}, "external constants that were not given: `given.scale`");
  expect({{"given.scale", TensorRef::Of(scale, {4, 2})}},
         "external constant `given.scale` is f32[4, 2], the artifact needs f32[8]");
  expect({{"given.scale", {DType::kF16, scale, {8}}}}, "is f16[8]");
  expect({{"given.scale", {DType::kF32, nullptr, {8}}}}, "without data");
  expect({{"given.scale", TensorRef::Of(scale, {8})}, {"other", TensorRef::Of(scale, {1})}},
         "`other` was given");

  const size_t copied_with_file =
      (*load({{"given.scale", TensorRef::Of(scale, {8})}}))->copied_constant_bytes();
  auto borrowed = load({{"given.scale", TensorRef::Of(scale, {8})}});
  ASSERT_TRUE(borrowed.ok()) << borrowed.status().message();
  EXPECT_EQ(static_cast<const void*>((*borrowed)->graph().constants[2].data.data()), scale);
  auto copied = load({{"given.scale", TensorRef::Of(scale + 1, {8})}});
  ASSERT_TRUE(copied.ok());
  EXPECT_EQ((*copied)->copied_constant_bytes(), copied_with_file + 32);
}

TEST(ArtifactTest, SymbolsAndPortsAreDescribed) {
  ir::Graph graph;
  sym::Table& table = graph.table();
  const Expr s = table.Symbol({.name = "s43", .lo = 1, .hi = 64, .display = "S"});
  const Expr t = table.Symbol({.name = "s7", .lo = 0, .hi = 9});
  const Expr n = table.Symbol({.name = "s16", .lo = 0, .hi = 5});
  graph.AddInput("input_ids", {DType::kI64, {table.Int(1), s}});
  graph.AddInput("past.0.key", {DType::kF16, {2 * t, s}});
  graph.AddScalarInput("n", n);
  graph.outputs = {{.name = "out", .value = 1}, {.name = "len", .scalar = s + 1}};
  auto artifact = Artifact::Load(Serialized(graph), nullptr);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  const Artifact& a = **artifact;

  using Texts = std::vector<std::string>;
  ASSERT_EQ(a.symbols().size(), 3u);
  EXPECT_EQ(a.symbols()[0].enters, (Texts{"input_ids.1", "past.0.key.1"}));
  EXPECT_EQ(a.symbols()[1].enters, (Texts{"past.0.key.0 = 2*s7"}));
  EXPECT_EQ(a.symbols()[2].enters, (Texts{"n"}));
  EXPECT_EQ(a.symbols()[0].max, 64);
  for (const char* name : {"S", "s43", "input_ids.1", "past.0.key.1"})
    EXPECT_EQ(a.FindSymbol(name), 0);
  EXPECT_EQ(a.FindSymbol("s7"), 1);
  EXPECT_EQ(a.FindSymbol("past.0.key.0"), -1);
  EXPECT_EQ(a.FindSymbol("n"), 2);
  EXPECT_EQ(a.FindSymbol(""), -1);

  EXPECT_EQ(a.inputs()[0].dims, (Texts{"1", "S"}));
  EXPECT_EQ(a.inputs()[1].dims, (Texts{"2*s7", "S"}));
  EXPECT_EQ(a.inputs()[1].dtype, DType::kF16);
  EXPECT_TRUE(a.inputs()[2].scalar);
  EXPECT_EQ(a.outputs()[0].name, "out");
  EXPECT_TRUE(a.outputs()[1].scalar);
}

TEST(ArtifactTest, SchemaNamesPointwiseOperationsInTheOrderOfIr) {
  for (int i = 0; i < static_cast<int>(ir::PwOp::kCount); ++i) {
    std::string name;
    for (const char* c = fbs::EnumNamePwOp(static_cast<fbs::PwOp>(i)); *c; ++c)
      name += static_cast<char>(std::tolower(*c));
    std::string ours = ir::Name(static_cast<ir::PwOp>(i));
    std::erase(ours, '_');
    EXPECT_EQ(name, ours);
  }
}

// What a new version adds to fuzz/corpus/artifact_fuzz: copy the two files from the folder named on failure.
TEST(ArtifactTest, SamplesOfThisVersionAreWrittenAndLoad) {
  const std::pair<const char*, std::unique_ptr<ir::Graph>> samples[] = {{"tiny", TinyGraph()},
                                                                        {"sample", SampleGraph()}};
  for (const auto& [name, graph] : samples) {
    const std::string path =
        fmt::format("{}/{}_{}.{}.live", testing::TempDir(), name, kMajor, kMinor);
    ASSERT_TRUE(WriteArtifact(*graph, path).ok()) << path;
    auto file = MappedFile::Open(path);
    ASSERT_TRUE(file.ok()) << path;
    EXPECT_TRUE(LoadGraph((*file)->bytes(), *file).ok()) << path;
  }
}

// Files of every version that was ever released stay in the corpus, and load.
TEST(ArtifactTest, OlderFilesLoad) {
  int files = 0;
  for (const char* name :
       {"tiny_1.0.live", "sample_1.0.live", "tiny_1.1.live", "sample_1.1.live"}) {
    auto file = MappedFile::Open(fmt::format("fuzz/corpus/artifact_fuzz/{}", name));
    ASSERT_TRUE(file.ok()) << name << ": run from the root of the tree";
    auto graph = LoadGraph((*file)->bytes(), *file);
    EXPECT_TRUE(graph.ok()) << name << ": " << graph.status().message();
    ++files;
  }
  EXPECT_EQ(files, 4);
}

}  // namespace
}  // namespace liveshape::artifact
