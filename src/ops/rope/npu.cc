#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  Boxes boxes = SameBoxes({k.Out(0), k.In(0), k.In(1), k.In(2)});
  boxes.whole.back() = true;
  Code code{.name = "rope"};
  code.per_element[VectorClass::kSimple] = 3;  // two products and a sum; half of the row is negated
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, code, std::move(values)));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kRopeNpu = {.op = &ops::kRope, .lower = Lower};

}  // namespace liveshape::npu
