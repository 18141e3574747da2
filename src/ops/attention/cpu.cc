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

// Two tiles of rows are multiplied a third faster by blocks, which do not split keys over threads: where there are
// groups enough for these. 8 rows by 4096 keys of 8 groups, D = 128, one Zen 4 core: 2.4 ms for 3.6.
bool SplitsKeys(const AttentionCall& call) {
  return FitsDecode(call) && (call.rows() <= 6 || call.batch() * call.groups() < 8);
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
  if (SplitsKeys(call)) {
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
  const ir::Dims &q = graph.type(node.inputs[0]).dims, &k = graph.type(node.inputs[1]).dims;
  const sym::Expr keys = k[2], depth = q[3], width = graph.type(node.inputs[2]).dims[3];
  // Of one group, at most: all heads may be of one.
  const sym::Expr rows = AtMost(q[2], kAttentionRows) * AtMost(q[1], kAttentionRows);
  const sym::Expr blocked = BlockScratch(rows, keys, depth, width).total() * threads;
  const sym::Expr chunks = sym::Max(DivideUp(keys, kDecodeKeys), graph.table().Int(1));
  const sym::Expr records = q[0] * k[1] * chunks * AtMost(rows, kDecodeRows) + 1;
  const sym::Expr decode =
      ChunkScratch(rows, keys, depth).total() * threads + records * PartialFloats(width);
  return sym::Max(blocked, decode) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

extern const CpuKernel kAttentionKernel = {
    .op = &ops::kAttention, .run = Run, .prepare = Prepare, .scratch = Scratch};

}  // namespace liveshape::cpu
