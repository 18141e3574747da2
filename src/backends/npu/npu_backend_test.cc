// Sessions on the NPU backend: what a failure leaves behind. Values are compared with torch's in tests/conformance.
#include <gmock/gmock.h>

#include <numeric>

#include "runtime/testing.h"

namespace liveshape {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// cache[places] += x, an entry a tile.
std::shared_ptr<const Artifact> ScatterModel(int64_t capacity) {
  GraphMaker m;
  const sym::Expr s = m.Symbol("s0", 1, 2 * capacity);
  const ir::ValueId places = m.graph->AddInput("places", {DType::kI64, {s}});
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s}});
  const ir::ValueId cache = m.State("cache", DType::kF32, {capacity});
  const ir::ValueId written =
      m.call.Emit(ops::kIndexPut, {cache, x, places},
                  {{"axes", std::vector<int64_t>{0}}, {"accumulate", int64_t{1}}});
  m.graph->states[0].result = written;
  m.Output("y", m.Add(written, written));
  return m.Finish();
}

// The entry that is out of range comes tiles after the first that was stored; adding is not idempotent.
TEST(NpuBackend, X2AnIndexOutOfRangeLeavesTheStateAsItWas) {
  auto session = Session::Create(ScatterModel(4), MakeNpuBackend(), {.strict = true});
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto good = Integers({3}, {0, 1, 1}), bad = Integers({3}, {0, 1, 4});
  Owned<float> x{DType::kF32, {3}, {1, 2, 3}};
  TensorRef inputs[] = {good.ref, x.ref};
  ASSERT_TRUE((*session)->Run(inputs).ok());
  EXPECT_THAT(ReadFloats((*session)->output(0)), ElementsAre(2, 10, 0, 0));
  inputs[0] = bad.ref;
  const Status status = (*session)->Run(inputs);
  EXPECT_THAT(status.message(), HasSubstr("index 4 is outside a dim of size 4"));
  EXPECT_FALSE((*session)->needs_reset());
  inputs[0] = good.ref;
  ASSERT_TRUE((*session)->Run(inputs).ok());
  EXPECT_THAT(ReadFloats((*session)->output(0)), ElementsAre(4, 20, 0, 0));
}

// More axes than one record has numbers for: x[i, j, k, l] of x = 0, 1, 2, ...
TEST(NpuBackend, AnIndexByFourTensors) {
  GraphMaker m;
  const ir::ValueId x =
      m.graph->AddInput("x", {DType::kF32, {m.Int(2), m.Int(3), m.Int(4), m.Int(5)}});
  std::vector<ir::ValueId> inputs = {x};
  for (const char* name : {"i", "j", "k", "l"})
    inputs.push_back(m.graph->AddInput(name, {DType::kI64, {m.Int(3)}}));
  m.Output("y", m.call.Emit(ops::kIndex, inputs, {{"axes", std::vector<int64_t>{0, 1, 2, 3}}}));
  auto session = Session::Create(m.Finish(), MakeNpuBackend(), {.strict = true});
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> numbers(120);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  Owned<float> values{DType::kF32, {2, 3, 4, 5}, numbers};
  auto i = Integers({3}, {0, 1, -1}), j = Integers({3}, {0, 2, 1}), k = Integers({3}, {0, 3, 2}),
       l = Integers({3}, {1, 4, -5});
  TensorRef given[] = {values.ref, i.ref, j.ref, k.ref, l.ref};
  ASSERT_TRUE((*session)->Run(given).ok());
  EXPECT_THAT(ReadFloats((*session)->output(0)), ElementsAre(1, 119, 60 + 20 + 10));
}

}  // namespace
}  // namespace liveshape
