// x @ w.T + bias. A constant weight comes in panels, quantised or not, and is streamed as it lies in the
// file; any other weight is packed block by block in a worker's scratch.
#include "backends/cpu/gemm/kernel.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

GemmCall CallOf(const KernelArgs& args) {
  const View &x = args.in(0), &w = args.in(1), &y = args.out(0);
  GemmCall call;
  call.n = w.dims[0];
  call.k = w.dims[1];
  call.m = 1;
  for (int i = 0; i + 1 < x.rank; ++i) call.m *= x.dims[i];
  call.a = {.data = x.data,
            .dtype = x.dtype,
            .rank = x.rank - 1,
            .dims = x.dims,
            .strides = x.strides,
            .k_stride = x.strides[x.rank - 1]};
  call.b.data = w.data;
  call.b.dtype = w.dtype;
  call.b.panels = w.layout == ir::ConstantLayout::kPanel16;
  call.b.encoding = w.encoding;
  if (!call.b.panels) {
    call.b.n_stride = w.strides[0];
    call.b.k_stride = w.strides[1];
  }
  if (args.inputs.size() > 2 && args.in(2).present()) {
    const View& bias = args.in(2);
    call.bias = bias.data;
    call.bias_dtype = bias.dtype;
    call.bias_stride = bias.strides[0];
  }
  call.c = y.data;
  call.c_dtype = y.dtype;
  return call;
}

Status Run(const KernelArgs& args) { return RunProduct(CallOf(args), args); }

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  const ir::TensorType &x = graph.type(node.inputs[0]), &w = graph.type(node.inputs[1]);
  if (!HasFastGemm(x.dtype)) return {};
  GemmCall call;
  call.a.dtype = call.c_dtype = x.dtype;
  call.b.dtype = w.dtype;
  const ir::Value& weight = graph.value(node.inputs[1]);
  if (weight.origin == ir::Origin::kConstant) {
    const ir::Constant& constant = graph.constants[weight.index];
    call.b.panels = constant.layout == ir::ConstantLayout::kPanel16;
    call.b.encoding = constant.encoding;
  }
  const sym::Expr rows = sym::Product(graph.table(), std::span(x.dims).first(x.dims.size() - 1));
  return GemmScratchBytes(call, rows, w.dims[0], w.dims[1], threads);
}

Need NeedOf(const ir::Node&, size_t input) {
  return input == 0 ? Need::kInnerDense : Need::kStrided;
}

}  // namespace

extern const CpuKernel kLinearKernel = {
    .op = &ops::kLinear, .run = Run, .prepare = PrepareProduct, .scratch = Scratch, .need = NeedOf};

}  // namespace liveshape::cpu
