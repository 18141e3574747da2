#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  Boxes boxes = SameBoxes({k.In(0)});
  for (int64_t d : l.node->Ints("dims")) boxes.whole[static_cast<size_t>(d)] = true;
  BoxOperand out{k.Out(0), {}};
  for (size_t d = 0; d < boxes.dims.size(); ++d) {
    if (!boxes.whole[d]) out.dims.push_back(static_cast<int>(d));
    if (boxes.whole[d] && l.node->Int("keepdim")) out.dims.push_back(kNoDim);
  }
  boxes.operands.insert(boxes.operands.begin(), std::move(out));
  Code code{.name = "reduce_" + l.node->String("kind")};
  code.per_element[VectorClass::kSimple] = 1;
  if (l.node->String("kind") == "mean") code.per_row[VectorClass::kSimple] = 1;
  code.lane_reductions = 1;
  Code finish{.name = code.name + "_finish"};
  finish.per_row = code.per_row;
  finish.per_element[VectorClass::kSimple] = 1;
  const std::string& kind = l.node->String("kind");
  const DType x = l.step.inputs[0].dtype;
  boxes.pieces = Pieces{.gather = Pass{code, ReduceGather(x, kind)},
                        .finish = Pass{finish, ReduceFinish(x, l.step.outputs[0].dtype, kind)}};
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, code, std::move(values)));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kReduceNpu = {.op = &ops::kReduce, .lower = Lower};

}  // namespace liveshape::npu
