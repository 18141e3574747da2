#include "ops/rope/webgpu_fuse.h"

#include <bit>

#include "backends/webgpu/fuse.h"
#include "backends/webgpu/wgsl.h"
#include "ops/ops.h"
#include "ops/view_write/webgpu_place.h"

namespace liveshape::webgpu {
namespace {

constexpr size_t kSource = 0, kCos = 1, kSin = 2, kFactor = 3;  // inputs of the fusion

// The view_write that takes the rotated rows into place, if that is all that happens to them.
const plan::Step* WriteAfter(const Lowering& l) {
  const plan::Step* write = OnlyReaderOf(l, l.out(0).storage);
  if (!IsOp(l, write, ops::kViewWrite) || !write->in_place) return nullptr;
  const plan::Operand &from = write->inputs[1], &to = l.out(0);
  const ir::Dims& sizes = NodeOf(l, write)->Exprs("sizes");
  const bool rows = from.storage == to.storage && from.rank == to.rank &&
                    from.strides_at == to.strides_at && from.offset_at == to.offset_at &&
                    sizes.back() == l.out_dims(0).back();
  return rows && WritesWords(l.table(), *NodeOf(l, write), l.out(0).dtype) ? write : nullptr;
}

void Round(DType dtype, Dispatch& d) {
  const char* round = dtype == DType::kF16    ? "round_f16(v)"
                      : dtype == DType::kBF16 ? "round_bf16(v)"
                                              : "v";
  d.body += fmt::format("fn rounded(v: f32) -> f32 {{ return {}; }}\n", round);
}

Dispatch Make(const Lowering& l, const Lowering& rope, const plan::Step& norm,
              const plan::Step* write) {
  Dispatch d;
  const int64_t width = rope.out_dims(0).back().value();
  d.body = fmt::format("const WIDTH = {}u;\n", width);
  // Indices into what is not there: the norm's result and the embedding's are dense, so a place is an element.
  AddStridedIndex(rope, rope.in(0), "norm_place", d);
  d.body += "fn at_norm(j: u32) -> u32 { return at_norm_place(j) - p.norm_place_offset; }\n";
  for (size_t k : {kCos, kSin}) AddStridedIndex(rope, rope.in(k), fmt::format("in{}", k), d);
  plan::Operand rows = norm.inputs[0];
  rows.rank = static_cast<uint8_t>(rows.rank - 1);
  AddStridedIndex(rope, rows, "source", d);
  d.body += fmt::format(
      "fn source(i: u32) -> f32 {{ return in{}(i); }}\n"
      "fn cosine(j: u32) -> f32 {{ return in{}(at_in{}(j)); }}\n"
      "fn sine(j: u32) -> f32 {{ return in{}(at_in{}(j)); }}\n",
      kSource, kCos, kCos, kSin, kSin);
  if (l.has(kFactor)) {
    d.params.push_back({.name = "factor_offset", .slot = l.in(kFactor).offset_at});
    d.body +=
        fmt::format("fn factor(c: u32) -> f32 {{ return in{}(p.factor_offset + c); }}\n", kFactor);
  } else {
    d.body += "fn factor(c: u32) -> f32 { return 1.0; }\n";
  }
  d.body += fmt::format(
      "fn epsilon() -> f32 {{ return f32_bits({}u); }}\n",
      std::bit_cast<uint32_t>(static_cast<float>(l.graph.nodes[norm.node].Float("eps"))));
  const DType dtype = rope.out(0).dtype;
  Round(dtype, d);
  Expr elements = l.numel(rope.out_dims(0));
  std::string place = "i";
  if (write) {
    const ir::Node& node = *NodeOf(l, write);
    elements = l.numel(node.Exprs("sizes"));
    AddPlace(l, node, d);
    plan::Operand written = write->inputs[1];
    AddStridedIndex(rope, written, "written", d);
    d.body += "fn rotated(i: u32) -> u32 { return at_written(i) - p.written_offset; }\n";
    place = "place(i)";
  } else {
    d.body += "fn rotated(i: u32) -> u32 { return i; }\n";
  }
  std::string store = dtype == DType::kF32 ? "  set_out0(at, low);\n  set_out0(at + 1u, high);\n"
                                           : "  set_out0_word(at / 2u, (encode_out0(low) & "
                                             "0xffffu) | (encode_out0(high) << 16u));\n";
  if (write) store = "  if (at + 1u >= p.total) {\n    fail();\n    return;\n  }\n" + store;
  d.body +=
      fmt::format("fn put(i: u32, low: f32, high: f32) {{\n  let at = {};\n{}}}\n", place, store);
  d.groups = sym::FloorDiv(elements, l.table().Int(width));
  d.params.push_back({.name = "rows", .expr = d.groups});
  d.body += wgsl::kRopeNormed;
  if (write) {
    d.failure = kWriteOutside;
    d.params.push_back(
        {.name = "step_number", .expr = l.table().Int(write - l.plan.steps.data() + 1)});
  }
  return d;
}

}  // namespace

Result<std::optional<Fusion>> FuseRope(const Lowering& l) {
  const plan::Step* norm = WriterOf(l, l.in(0).storage);
  const bool mine = IsOp(l, norm, ops::kRmsNorm) && OnlyReaderOf(l, l.in(0).storage) == &l.step;
  const Expr width = l.out_dims(0).back();
  if (!mine || !width.is_int() || l.in(0).rank == 0 || !ValueType(l.out(0).dtype) ||
      l.graph.type(norm->outputs[0].value).dims.back() != width)
    return std::optional<Fusion>();
  for (const plan::Step* write : {WriteAfter(l), static_cast<const plan::Step*>(nullptr)}) {
    Fusion fusion{.steps = {norm, &l.step}, .step = std::make_shared<plan::Step>(l.step)};
    fusion.step->inputs = {norm->inputs[0], l.in(1), l.in(2),
                           norm->inputs.size() > 1 ? norm->inputs[1] : plan::Operand{}};
    if (write) {
      fusion.steps.push_back(write);
      fusion.step->outputs = write->outputs;
    }
    const bool in_order = norm < &l.step && (!write || &l.step < write);
    if (!in_order || !IsSafe(l, fusion)) continue;
    const Lowering whole{l.graph,  l.plan,     *fusion.step, l.node,
                         l.limits, l.features, l.tuning,     l.locations};
    fusion.dispatches = {Make(whole, l, *norm, write)};
    return std::optional<Fusion>(std::move(fusion));
  }
  return std::optional<Fusion>();
}

}  // namespace liveshape::webgpu
