// argmax and the reductions that need an element: every dtype and layout against a plain loop, and what an
// empty dim says.
#include "backends/cpu/kernel_testing.h"

namespace liveshape::cpu {

extern const CpuKernel kArgmaxKernel;
extern const CpuKernel kReduceKernel;

namespace {

using testing::ForEachIsa;
using testing::kNaN;
using testing::PoolOf;
using testing::RunKernel;
using testing::Tensor;

ir::Attrs Argmax(const char* kind, int64_t dim) {
  return {{"kind", std::string(kind)}, {"dim", dim}, {"keepdim", int64_t{0}}};
}

TEST(Argmax, EveryDtypeDimAndLayout) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI64, DType::kI32,
                  DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    for (std::vector<int> order : {std::vector<int>{0, 1}, {1, 0}}) {
      for (int64_t dim : {0, 1}) {
        Tensor x(t, {37, 61}, order);
        x.Fill(3, 0, 5);
        for (int64_t i = 0; i < x.numel(); ++i) x.Set(i, std::floor(x.Get(i)));  // equals
        const int64_t n = dim == 0 ? 37 : 61, rows = dim == 0 ? 61 : 37;
        for (const char* kind : {"max", "min"}) {
          ForEachIsa(kArgmaxKernel, Argmax(kind, dim), {&x}, Tensor(DType::kI64, {rows}),
                     [&](const Tensor& y) {
                       for (int64_t r = 0; r < rows; ++r) {
                         auto at = [&](int64_t k) {
                           return x.Get(dim == 0 ? k * 61 + r : r * 61 + k);
                         };
                         int64_t best = 0;
                         for (int64_t k = 1; k < n; ++k)
                           if (kind[1] == 'a' ? at(k) > at(best) : at(k) < at(best)) best = k;
                         ASSERT_EQ(y.GetInt(r), best) << Name(t) << " row " << r;
                       }
                     });
        }
      }
    }
  }
}

TEST(Argmax, TheFirstNanWins) {
  Tensor x(DType::kF32, {1, 5});
  const float values[] = {3, kNaN, 9, kNaN, -1};
  for (int i = 0; i < 5; ++i) x.Set(i, values[i]);
  for (const char* kind : {"max", "min"})
    ForEachIsa(kArgmaxKernel, Argmax(kind, 1), {&x}, Tensor(DType::kI64, {1}),
               [](const Tensor& y) { EXPECT_EQ(y.GetInt(0), 1); });
}

TEST(Argmax, AnEmptyDimHasNoExtreme) {
  Tensor empty(DType::kF32, {3, 0}), indices(DType::kI64, {3}), values(DType::kF32, {3});
  Status status = RunKernel(kArgmaxKernel, Argmax("max", 1), {&empty}, indices, PoolOf(1));
  EXPECT_EQ(status.message(), "argmax or argmin over a dim of extent 0 has no value");
  const ir::Attrs reduced = {
      {"kind", std::string("max")}, {"dims", std::vector<int64_t>{1}}, {"keepdim", int64_t{0}}};
  status = RunKernel(kReduceKernel, reduced, {&empty}, values, PoolOf(1));
  EXPECT_EQ(status.message(), "max or min over a dim of extent 0 has no value");
  Tensor none(DType::kF32, {0, 3}), nothing(DType::kI64, {0});
  EXPECT_TRUE(RunKernel(kArgmaxKernel, Argmax("max", 1), {&none}, nothing, PoolOf(1)).ok());
}

}  // namespace
}  // namespace liveshape::cpu
