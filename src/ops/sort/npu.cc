#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

// Steps of a bitonic sorting network over n elements: s * (s + 1) / 2, where s = ceil(log2(n)).
Expr NetworkSteps(KernelBuilder& k, Expr n) {
  Expr steps = k.Int(0);
  for (int64_t s = 1; s <= 40; ++s)
    steps = sym::Select(sym::Lt(k.Int(int64_t{1} << (s - 1)), n), k.Int(s * (s + 1) / 2), steps);
  return steps;
}

// The space has the dims of the input, then how many elements are kept.
Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  const View x = k.In(0), values = k.Out(0), indices = k.Out(1);
  const auto dim = static_cast<size_t>(l.node->Int("dim"));
  Boxes boxes{.dims = x.dims, .outputs = 2};
  boxes.dims.push_back(values.dims[dim]);
  boxes.whole.assign(boxes.dims.size(), false);
  boxes.whole[dim] = boxes.whole.back() = true;
  std::vector<int> in, out;
  for (size_t d = 0; d < x.rank(); ++d) {
    in.push_back(static_cast<int>(d));
    out.push_back(static_cast<int>(d == dim ? x.rank() : d));
  }
  boxes.operands = {{values, out}, {indices, out}, {x, in}};
  boxes.work = x.dims[dim] * k.Let("steps", NetworkSteps(k, x.dims[dim]));
  // Compare, and exchange values and 64-bit indices.
  Code code{.name = "sort"};
  code.per_element[VectorClass::kSimple] = 4;
  LS_ASSIGN_OR_RETURN(ValueFunction sorted, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, std::move(code), std::move(sorted)));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kSortNpu = {.op = &ops::kSort, .lower = Lower};

}  // namespace liveshape::npu
