// Rows and images at sizes that fit the scratchpad and at sizes that do not: the same program (N9). Values are compared with
// torch's in tests/conformance/test_npu.py, on a machine with a small scratchpad.
#include "backends/npu/lower/boxes.h"

#include <gmock/gmock.h>

#include "backends/npu/testing.h"
#include "ops/window.h"

namespace liveshape::npu {
namespace {

using ::testing::HasSubstr;
using Build = std::function<ir::ValueId(SizedGraph& g, ir::ValueId x)>;

constexpr int64_t kMost = 4096;
constexpr Target kSmall = {.scratchpad_bytes = 16 << 10};  // 1024 elements in, as many out, twice

Result<Lowered> Rows(std::vector<int64_t> sizes, const Build& build,
                     const Target& target = kSmall) {
  SizedGraph g;
  g.sizes = std::move(sizes);
  const sym::Expr r = g.Size("R", 16), c = g.Size("C", kMost);
  g.Output(build(g, g.Input("x", {r, c})));
  if (!g.call.ok()) return g.call.status();
  return LowerGraph(std::move(g.graph), target);
}

ir::ValueId Softmax(SizedGraph& g, ir::ValueId x, int64_t dim) {
  return g.call.Emit(ops::kSoftmax, {x}, {{"dim", dim}, {"all_masked", std::string("nan")}});
}
ir::ValueId Reduce(SizedGraph& g, ir::ValueId x, std::vector<int64_t> dims) {
  return g.call.Emit(ops::kReduce, {x},
                     {{"kind", std::string("mean")}, {"dims", dims}, {"keepdim", int64_t{0}}});
}
ir::ValueId Top(SizedGraph& g, ir::ValueId x) {
  return g.call.EmitAll(
      ops::kSort, {x},
      {{"dim", int64_t{1}}, {"descending", int64_t{1}}, {"count", ir::Dims{g.Int(1)}}})[0];
}
// x as an image of 16 columns.
ir::ValueId Pool(SizedGraph& g, ir::ValueId x) {
  const ir::Dims dims = g.call.DimsOf(x);
  ir::Attrs attrs = ops::WindowAttrs({ops::Window{.size = 3, .stride = 2, .before = 1, .after = 1},
                                      ops::Window{.size = 3, .before = 1, .after = 1}});
  attrs.insert(attrs.end(), {{"kind", std::string("max")},
                             {"ceil", int64_t{0}},
                             {"count_padding", int64_t{1}},
                             {"divisor", int64_t{0}}});
  const ir::ValueId wide = g.call.Expand(g.call.Reshape(x, {g.Int(1), dims[0], dims[1], g.Int(1)}),
                                         {g.Int(1), dims[0], dims[1], g.Int(16)});
  return g.call.Emit(ops::kPool, {wide}, attrs);
}

TEST(BoxesTest, N9RowsInPiecesAreChosenByTheLiveSize) {
  const Build builds[] = {
      [](SizedGraph& g, ir::ValueId x) { return Softmax(g, x, 1); },
      [](SizedGraph& g, ir::ValueId x) { return Softmax(g, g.call.Transpose(x, 0, 1), 0); },
      [](SizedGraph& g, ir::ValueId x) { return Reduce(g, x, {1}); },
      [](SizedGraph& g, ir::ValueId x) { return Reduce(g, x, {0, 1}); },
      Top,
      Pool,
  };
  for (size_t b = 0; b < std::size(builds); ++b) {
    auto dynamic = Rows({}, builds[b]);
    ASSERT_TRUE(dynamic.ok()) << b << ": " << dynamic.status().message();
    for (int64_t c : {7, 64, 1024, 1025, 3001}) {
      auto constant = Rows({3, c}, builds[b]);
      ASSERT_TRUE(constant.ok()) << b << ": " << constant.status().message();
      std::vector<std::string> records, expected;
      for (const Kernel& kernel : dynamic->model.kernels)
        for (std::string& record : RecordWalk(kernel, {{3, c}}).records)
          records.push_back(std::move(record));
      for (const Kernel& kernel : constant->model.kernels)
        for (std::string& record : RecordWalk(kernel, {}).records)
          expected.push_back(std::move(record));
      EXPECT_TRUE(records == expected) << "build " << b << " at " << c;
      EXPECT_FALSE(records.empty());
    }
  }
}

// A softmax of 2048 columns, 512 at a time: four pieces are gathered, four are made.
TEST(BoxesTest, ALongRowIsReadOncePerPass) {
  auto lowered = Rows({}, [](SizedGraph& g, ir::ValueId x) { return Softmax(g, x, 1); });
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  const Kernel& kernel = lowered->model.kernels[0];
  const Recorder walk = RecordWalk(kernel, {{1, 2048}});
  int64_t loaded = 0, stored = 0;
  for (size_t i = 0; i < walk.kinds.size(); ++i) {
    if (walk.kinds[i] == 'l') loaded += walk.As<ls_trace_dma>(i).extent[1];
    if (walk.kinds[i] == 's') stored += walk.As<ls_trace_dma>(i).extent[1];
  }
  EXPECT_EQ(loaded, 2 * 2048);
  EXPECT_EQ(stored, 2048);
  EXPECT_EQ(RecordWalk(kernel, {{1, 1024}}).kinds, "dlbcsb");
}

TEST(BoxesTest, AForcedTileIsOfSoManyRows) {
  const auto tiles = [](int64_t forced) {
    Target target;
    target.forced_tile = forced;
    auto lowered = Rows({}, [](SizedGraph& g, ir::ValueId x) { return Softmax(g, x, 1); }, target);
    EXPECT_TRUE(lowered.ok());
    const std::string kinds = RecordWalk(lowered->model.kernels[0], {{12, 100}}).kinds;
    return std::count(kinds.begin(), kinds.end(), 'd');
  };
  EXPECT_EQ(tiles(1), 12);
  EXPECT_EQ(tiles(5), 3);
  EXPECT_EQ(tiles(512), 1);
}

TEST(BoxesTest, WhatDoesNotFitEvenInPiecesIsAnErrorWithTheSizes) {
  auto sorted = Rows({}, [](SizedGraph& g, ir::ValueId x) {
    return g.call.EmitAll(ops::kSort, {x},
                          {{"dim", int64_t{1}},
                           {"descending", int64_t{1}},
                           {"count", ir::Dims{g.call.DimsOf(x)[1]}}})[0];
  });
  ASSERT_FALSE(sorted.ok());
  EXPECT_THAT(sorted.status().message(), HasSubstr("the first 4096 of a row of C elements"));
  EXPECT_THAT(sorted.status().message(), HasSubstr("16384 bytes"));
}

}  // namespace
}  // namespace liveshape::npu
