// Attention in one pass over the keys that are visible at the live shape: cost follows the context, never
// the capacity T. The route depends on live dims and strides alone.
#include "backends/cpu/kernel.h"
#include "ops/attention/cpu_block.h"
#include "ops/attention/cpu_call.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

struct Attributes : Prepared {
  float scale = 1;
  bool has_limit = false;
  AllMasked all_masked = AllMasked::kZero;
};

const View* Optional(const KernelArgs& args, size_t input) {
  return input < args.inputs.size() && args.in(input).present() ? &args.in(input) : nullptr;
}

Status Run(const KernelArgs& args) {
  const auto& attributes = static_cast<const Attributes&>(*args.prepared);
  AttentionCall call;
  call.q = &args.in(0), call.k = &args.in(1), call.v = &args.in(2);
  call.mask = Optional(args, 3), call.row_limits = Optional(args, 4);
  call.out = &args.out(0);
  call.scale = attributes.scale;
  call.has_limit = attributes.has_limit;
  call.limit = attributes.has_limit ? args.params[0] : 0;
  call.all_masked = attributes.all_masked;
  if (args.out(0).numel() == 0) return {};
  if (FitsDecode(call)) {
    DecodeAttention(call, args.pool, args.scratch);
  } else {
    BlockedAttention(call, args.pool, args.scratch);
  }
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = graph.type(node.inputs[0]).dtype;
  if (dtype == DType::kF64) return Unsupported("attention of f64 on the CPU");
  auto attributes = std::make_unique<Attributes>();
  attributes->scale = static_cast<float>(node.Float("scale"));
  attributes->has_limit = node.Has("limit");
  const std::string& masked = node.String("all_masked");
  attributes->all_masked = masked == "mean"  ? AllMasked::kMean
                           : masked == "nan" ? AllMasked::kNan
                                             : AllMasked::kZero;
  return std::unique_ptr<Prepared>(std::move(attributes));
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  sym::Table& table = graph.table();
  const auto most = [&](size_t input, size_t dim) {
    return std::max<int64_t>(0, table.Bounds(graph.type(node.inputs[input]).dims[dim]).hi);
  };
  const bool masked = node.inputs.size() > 3 && node.inputs[3] != ir::kNoValue;
  const int64_t keys = most(1, 2), depth = most(0, 3), width = most(2, 3);
  const int64_t rows = std::min(most(0, 2), kAttentionRows) * std::min(most(0, 1), kAttentionRows);
  const int64_t blocked = threads * BlockScratch(rows, keys, depth, width, masked).total();
  const int64_t chunks = std::max<int64_t>(1, (keys + kDecodeKeys - 1) / kDecodeKeys);
  const int64_t records = most(0, 0) * most(1, 1) * chunks * std::min(rows, kDecodeRows) + 1;
  const int64_t decode =
      threads * ChunkScratch(rows, keys, depth, masked).total() + records * PartialFloats(width);
  return table.Int(std::max(blocked, decode) * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

extern const CpuKernel kAttentionKernel = {
    .op = &ops::kAttention, .run = Run, .prepare = Prepare, .scratch = Scratch};

}  // namespace liveshape::cpu
