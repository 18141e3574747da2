// Pools of whole images, as many of them as fit: an output pixel needs its window alone, and a window may reach
// anywhere.
#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"
#include "ops/window.h"

namespace liveshape::npu {
namespace {

// The space has the dims of the input, then height and width of the output.
Status LowerImages(const Lowering& l, std::vector<Kernel>& kernels, Code code, bool input_counts) {
  KernelBuilder k(l);
  const View x = k.In(0), y = k.Out(0);
  Boxes boxes{.dims = x.dims};
  boxes.dims.push_back(y.dims[2]);
  boxes.dims.push_back(y.dims[3]);
  boxes.whole = {false, false, true, true, true, true};
  boxes.operands = {{y, {0, 1, 4, 5}}, {x, {0, 1, 2, 3}}};
  boxes.work = input_counts ? x.dims[2] * x.dims[3] : y.dims[2] * y.dims[3];
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, std::move(code), std::move(values)));
  return k.Finish(kernels);
}

Status LowerPool(const Lowering& l, std::vector<Kernel>& kernels) {
  LS_ASSIGN_OR_RETURN(const ops::Windows windows, ops::ReadWindows(*l.node));
  const bool mean = l.node->String("kind") == "mean";
  Code code{.name = mean ? "mean_pool" : "max_pool"};
  code.per_element[VectorClass::kSimple] =
      static_cast<float>(windows[0].size * windows[1].size + (mean ? 1 : 0));
  return LowerImages(l, kernels, std::move(code), /*input_counts=*/false);
}

// Windows divide the image: every pixel is added about once.
Status LowerAdaptive(const Lowering& l, std::vector<Kernel>& kernels) {
  Code code{.name = "adaptive_mean"};
  code.per_element[VectorClass::kSimple] = 1;
  code.lane_reductions = 1;
  return LowerImages(l, kernels, std::move(code), /*input_counts=*/true);
}

}  // namespace

extern const NpuOp kPoolNpu = {.op = &ops::kPool, .lower = LowerPool};
extern const NpuOp kAdaptiveMeanNpu = {.op = &ops::kAdaptiveMean, .lower = LowerAdaptive};

}  // namespace liveshape::npu
