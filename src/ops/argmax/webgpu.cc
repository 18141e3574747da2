// A line an invocation; the first of equals wins, a NaN wins over all.
#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

// Whether `v` takes the place of `best`.
std::string Better(DType dtype, bool max) {
  const char *a = max ? "best" : "v", *b = max ? "v" : "best";  // a < b
  if (IsFloat(dtype)) return fmt::format("!is_nan(best) && (is_nan(v) || {} < {})", a, b);
  if (dtype == DType::kI64) return fmt::format("i64_lt({}, {})", a, b);
  if (dtype == DType::kBool) return fmt::format("!{} && {}", a, b);
  return fmt::format("{} < {}", a, b);
}

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType dtype = l.in(0).dtype;
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  const auto axis = static_cast<uint32_t>(l.node->Int("dim"));
  Dispatch d;
  AddStrides(l.in(0), "x", d);
  std::string place;
  for (uint32_t k = l.in(0).rank; k-- > 0;)
    if (k != axis)
      place += fmt::format("  at += rest % p.x_d{0} * p.x_s{0};\n  rest /= p.x_d{0};\n", k);
  d.body = fmt::format(R"(fn value(i: u32) -> vec2<u32> {{
  var at = p.x_offset;
  var rest = i;
{0}  if (p.x_d{1} == 0u) {{
    fail();
    return vec2<u32>();
  }}
  var best = in0(at);
  var found = 0u;
  for (var k = 1u; k < p.x_d{1}; k++) {{
    at += p.x_s{1};
    let v = in0(at);
    if ({2}) {{
      best = v;
      found = k;
    }}
  }}
  return vec2<u32>(found, 0u);
}}
)",
                       place, axis, Better(dtype, l.node->String("kind") == "max"));
  Dispatch made = MakeMap(l, std::move(d.body), std::move(d.params));
  CanFail(l, made, "argmax or argmin over a dim of extent 0 has no value");
  return std::vector{std::move(made)};
}

}  // namespace

extern const WebGpuKernel kArgmaxKernel = {.op = &ops::kArgmax, .lower = Lower};

}  // namespace liveshape::webgpu
