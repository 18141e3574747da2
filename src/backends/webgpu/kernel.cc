#include "backends/webgpu/kernel.h"

#include <algorithm>

namespace liveshape::webgpu {
namespace {

constexpr uint32_t kMapWorkgroup = 64;

uint32_t ElementsPerWord(DType dtype) {
  return std::max<uint32_t>(1, 4 / static_cast<uint32_t>(SizeOf(dtype)));
}

}  // namespace

const char* ValueType(DType dtype) {
  switch (dtype) {
    case DType::kF64: return nullptr;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: return "f32";
    case DType::kI64: return "vec2<u32>";
    case DType::kBool: return "bool";
    default: return "i32";
  }
}

plan::Need NeedDense(const ir::Node&, size_t) { return plan::Need::kDense; }

const ir::Constant* Lowering::constant(size_t input) const {
  const plan::Storage& storage = plan.storages[in(input).storage];
  return storage.place == plan::Place::kConstant ? &graph.constants[storage.index] : nullptr;
}

bool HasAlignedRows(const Lowering& l, const plan::Operand& operand, int64_t elements) {
  const ir::Layout layout = l.locations.Of(operand);
  sym::Table& table = l.table();
  const auto divides = [&](Expr e) {
    return table.Divides(table.Int(elements), e) == sym::Tri::kYes;
  };
  if (layout.strides.empty() || !divides(layout.offset) || layout.strides.back() != table.Int(1))
    return false;
  return std::all_of(layout.strides.begin(), layout.strides.end() - 1, divides);
}

void AddStrides(const plan::Operand& operand, const std::string& name, Dispatch& d) {
  d.params.push_back({.name = name + "_offset", .slot = operand.offset_at});
  for (uint32_t k = 0; k < operand.rank; ++k) {
    d.params.push_back({.name = fmt::format("{}_d{}", name, k), .slot = operand.dims_at + k});
    d.params.push_back({.name = fmt::format("{}_s{}", name, k), .slot = operand.strides_at + k});
  }
}

void AddStridedIndex(const Lowering& l, const plan::Operand& operand, const std::string& name,
                     Dispatch& d) {
  d.params.push_back({.name = name + "_offset", .slot = operand.offset_at});
  std::string text = fmt::format("fn at_{0}(i: u32) -> u32 {{\n  var at = p.{0}_offset;\n", name);
  const auto& out = l.out(0);
  // Equal tuples of expressions share their slots: then the operand is dense as the output is.
  const bool dense = operand.rank == out.rank && operand.strides_at == out.strides_at &&
                     operand.dims_at == out.dims_at;
  if (dense || operand.rank == 0) {
    text += dense ? "  at += i;\n" : "";
  } else {
    text += "  var rest = i;\n";
    for (uint32_t k = operand.rank; k-- > 0;) {
      d.params.push_back({.name = fmt::format("{}_s{}", name, k), .slot = operand.strides_at + k});
      if (k == 0) {
        text += fmt::format("  at += rest * p.{}_s0;\n", name);
        break;
      }
      d.params.push_back({.name = fmt::format("{}_d{}", name, k), .slot = operand.dims_at + k});
      text += fmt::format("  at += (rest % p.{0}_d{1}) * p.{0}_s{1};\n  rest /= p.{0}_d{1};\n",
                          name, k);
    }
  }
  d.body += text + "  return at;\n}\n";
}

// The number is a param, so that like nodes share a shader.
void CanFail(const Lowering& l, Dispatch& d, std::string cause) {
  d.failure = std::move(cause);
  d.params.push_back(
      {.name = "step_number", .expr = l.table().Int(&l.step - l.plan.steps.data() + 1)});
}

Dispatch MakeCopy(const Lowering& l) {
  Dispatch index;
  AddStridedIndex(l, l.in(0), "in0", index);
  index.body += fmt::format("fn value(i: u32) -> {} {{ return in0(at_in0(i)); }}\n",
                            ValueType(l.in(0).dtype));
  return MakeMap(l, std::move(index.body), std::move(index.params));
}

Dispatch MakeMap(const Lowering& l, std::string body, std::vector<Param> params) {
  Dispatch d;
  const Expr count = l.numel(l.out_dims(0));
  const uint32_t per_word = ElementsPerWord(l.out(0).dtype);
  d.params = std::move(params);
  d.params.push_back({.name = "count", .expr = count});
  d.groups = sym::CeilDiv(count, l.table().Int(int64_t{kMapWorkgroup} * per_word));
  d.body = std::move(body) + fmt::format(R"(
@compute @workgroup_size({}) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let word = group_index(wid, nwg) * {}u + lane;
)",
                                         kMapWorkgroup, kMapWorkgroup);
  if (per_word == 1) {
    d.body += "  if (word < p.count) { set_out0(word, value(word)); }\n}\n";
  } else {
    // Whole words only: two invocations that wrote parts of one would race.
    const uint32_t bits = 32 / per_word;
    d.body += fmt::format(R"(  if (word * {0}u >= p.count) {{ return; }}
  var packed = 0u;
  for (var k = 0u; k < {0}u; k++) {{
    let i = word * {0}u + k;
    if (i < p.count) {{ packed |= (encode_out0(value(i)) & {1}u) << ({2}u * k); }}
  }}
  set_out0_word(word, packed);
}}
)",
                          per_word, (1u << bits) - 1, bits);
  }
  return d;
}

}  // namespace liveshape::webgpu
