// Batched a @ b over any strides: a transposed or expanded view is never copied whole, its blocks are
// packed in a worker's scratch.
#include "backends/cpu/gemm/kernel.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

GemmCall CallOf(const KernelArgs& args) {
  const View &a = args.in(0), &b = args.in(1), &y = args.out(0);
  const int batch = a.rank - 2;
  GemmCall call;
  call.m = a.dims[batch];
  call.k = a.dims[batch + 1];
  call.n = b.dims[batch + 1];
  call.a = {.data = a.data,
            .dtype = a.dtype,
            .rank = 1,
            .dims = a.dims + batch,
            .strides = a.strides + batch,
            .k_stride = a.strides[batch + 1]};
  call.b = {.data = b.data,
            .dtype = b.dtype,
            .panels = false,
            .k_stride = b.strides[batch],
            .n_stride = b.strides[batch + 1]};
  call.c = y.data;
  call.c_dtype = y.dtype;
  call.batch_rank = batch;
  call.batch_dims = y.dims;
  call.a_batch_strides = a.strides;
  call.b_batch_strides = b.strides;
  return call;
}

Status Run(const KernelArgs& args) { return RunProduct(CallOf(args), args); }

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  const ir::TensorType &a = graph.type(node.inputs[0]), &b = graph.type(node.inputs[1]);
  if (!HasFastGemm(a.dtype)) return {};
  const size_t rank = a.dims.size();
  GemmCall call;
  call.a.dtype = call.b.dtype = call.c_dtype = a.dtype;
  call.a.k_stride = 0;  // a transposed view is possible
  return GemmScratchBytes(call, a.dims[rank - 2], b.dims[rank - 1], a.dims[rank - 1], threads);
}

}  // namespace

extern const CpuKernel kMatmulKernel = {
    .op = &ops::kMatmul, .run = Run, .prepare = PrepareProduct, .scratch = Scratch};

}  // namespace liveshape::cpu
