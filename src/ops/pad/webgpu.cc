#include <bit>

#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

// The source index `s` of a place outside of [0, n), both i32.
const char* Outside(const std::string& mode) {
  if (mode == "reflect") return "s = select(2 * (n - 1) - s, -s, s < 0);";
  if (mode == "replicate") return "s = select(n - 1, 0, s < 0);";
  if (mode == "circular") return "s = select(s - n, s + n, s < 0);";
  return "return filling();";
}

std::string Filling(double value, DType dtype) {
  if (IsFloat(dtype))
    return fmt::format("f32_bits({}u)", std::bit_cast<uint32_t>(static_cast<float>(value)));
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  const auto bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  if (dtype == DType::kI64)
    return fmt::format("vec2<u32>({}u, {}u)", static_cast<uint32_t>(bits),
                       static_cast<uint32_t>(bits >> 32));
  return fmt::format("bitcast<i32>({}u)", static_cast<uint32_t>(bits));
}

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  const char* type = ValueType(dtype);
  if (type == nullptr) return NoSuchType(dtype);
  const ir::Dims& before = l.node->Exprs("before");
  Dispatch d;
  AddStrides(l.in(0), "x", d);
  std::string place;
  for (uint32_t k = l.out(0).rank; k-- > 0;) {
    d.params.push_back({.name = fmt::format("out_d{}", k), .slot = l.out(0).dims_at + k});
    d.params.push_back({.name = fmt::format("before{}", k), .expr = before[k]});  // may be negative
    place += fmt::format(R"(  {{
    let n = i32(p.x_d{0});
    var s = i32(rest % p.out_d{0} - p.before{0});
    rest /= p.out_d{0};
    if (s < 0 || s >= n) {{ {1} }}
    at += u32(s) * p.x_s{0};
  }}
)",
                         k, Outside(l.node->String("mode")));
  }
  d.body = fmt::format(R"(fn filling() -> {0} {{ return {1}; }}
fn value(i: u32) -> {0} {{
  var at = p.x_offset;
  var rest = i;
{2}  return in0(at);
}}
)",
                       type, Filling(l.node->Float("value"), dtype), place);
  return std::vector{MakeMap(l, std::move(d.body), std::move(d.params))};
}

}  // namespace

extern const WebGpuKernel kPadKernel = {.op = &ops::kPad, .lower = Lower};

}  // namespace liveshape::webgpu
