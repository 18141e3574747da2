#include "backends/npu/lower/map.h"
#include "backends/npu/lower/product.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

// Leading dims of x are rows: one dim of them where they lie densely, batches of rows otherwise.
Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  Product p{.a = k.In(0),
            .epilogue = {l, k, l.has(2) ? std::optional(k.In(2)) : std::nullopt},
            .b = WeightOf(l, k, 1)};
  std::vector<View> views = p.epilogue.Shaped();
  p.n = views[0].dims.back();
  p.k = p.b.k;
  const size_t leading = p.a.rank() - 1;
  views.push_back(p.a);
  const std::vector<Expr> rows = MergeDims(k, views, leading);
  for (size_t d = 0; d + 1 < leading; ++d) {
    p.batch.push_back(rows[d]);
    p.a_batch.push_back(p.a.strides[d]);
    p.b_batch.push_back(k.Int(0));
  }
  p.m = leading > 0 ? rows.back() : k.Int(1);
  p.a_m = leading > 0 ? p.a.strides[leading - 1] : k.Int(0);
  p.a_k = p.a.strides.back();
  LS_RETURN_IF_ERROR(LowerProduct(l, k, std::move(p)));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kLinearNpu = {.op = &ops::kLinear, .lower = Lower, .stages = Stages::kRows};

}  // namespace liveshape::npu
