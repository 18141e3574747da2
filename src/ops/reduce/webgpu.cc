// An output element an invocation, over any strides; float sums carry their rounding error along (Kahan).
#include <algorithm>

#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

struct Fold {
  std::string start, step, finish;  // `x` is the element, `acc` the result so far
};

// The accumulator's type is the output's; an integer sum of narrower elements is widened first.
Result<Fold> FoldOf(const std::string& kind, DType in, DType out) {
  const bool floats = IsFloat(in), wide = out == DType::kI64;
  std::string x = "x";
  if (wide && in == DType::kBool) x = "vec2<u32>(select(0u, 1u, x), 0u)";
  if (wide && in != DType::kI64 && in != DType::kBool) x = "i64_of(x)";
  if (kind == "sum" || kind == "mean") {
    const std::string finish = kind == "mean" ? "math_div(acc, f32(p.span))" : "acc";
    if (floats)
      return Fold{
          "0.0", "let y = x - lost;\n    let t = acc + y;\n    lost = (t - acc) - y;\n    acc = t;",
          finish};
    return Fold{"vec2<u32>(0u, 0u)", fmt::format("acc = i64_add(acc, {});", x), finish};
  }
  if (kind == "prod")
    return floats ? Fold{"1.0", "acc *= x;", "acc"}
                  : Fold{"vec2<u32>(1u, 0u)", fmt::format("acc = i64_mul(acc, {});", x), "acc"};
  if (kind == "any" || kind == "all") {
    const char* truth = floats               ? "(bitcast<u32>(x) & 0x7fffffffu) != 0u"
                        : in == DType::kI64  ? "(x.x | x.y) != 0u"
                        : in == DType::kBool ? "x"
                                             : "x != 0";
    return kind == "any" ? Fold{"false", fmt::format("acc = acc || {};", truth), "acc"}
                         : Fold{"true", fmt::format("acc = acc && ({});", truth), "acc"};
  }
  const bool max = kind == "max";
  if (in == DType::kBool)
    return max ? Fold{"false", "acc = acc || x;", "acc"} : Fold{"true", "acc = acc && x;", "acc"};
  if (floats)
    return Fold{max ? "f32_bits(0xff800000u)" : "f32_bits(0x7f800000u)",
                fmt::format("acc = math_{}(acc, x);", kind), "acc"};
  if (in == DType::kI64)
    return Fold{max ? "vec2<u32>(0u, 0x80000000u)" : "vec2<u32>(0xffffffffu, 0x7fffffffu)",
                max ? "if (i64_lt(acc, x)) { acc = x; }" : "if (i64_lt(x, acc)) { acc = x; }",
                "acc"};
  return Fold{max ? "(-2147483647 - 1)" : "2147483647", fmt::format("acc = {}(acc, x);", kind),
              "acc"};
}

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType in = l.in(0).dtype, out = l.out(0).dtype;
  if (ValueType(in) == nullptr) return NoSuchType(in);
  LS_ASSIGN_OR_RETURN(const Fold fold, FoldOf(l.node->String("kind"), in, out));
  const ir::Dims& dims = l.in_dims(0);
  const std::vector<int64_t>& reduced = l.node->Ints("dims");
  Dispatch d;
  d.params = {{.name = "in0_offset", .slot = l.in(0).offset_at}};
  std::string kept_place, span_place;
  ir::Dims span;
  for (size_t k = dims.size(); k-- > 0;) {
    const bool gone =
        std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(k)) != reduced.end();
    const auto at = static_cast<uint32_t>(k);
    d.params.push_back({.name = fmt::format("d{}", k), .slot = l.in(0).dims_at + at});
    d.params.push_back({.name = fmt::format("s{}", k), .slot = l.in(0).strides_at + at});
    (gone ? span_place : kept_place) +=
        fmt::format("  at += rest % p.d{0} * p.s{0};\n  rest /= p.d{0};\n", k);
    if (gone) span.push_back(dims[k]);
  }
  d.params.push_back({.name = "span", .expr = l.numel(span)});
  d.body = fmt::format(R"(fn kept(i: u32) -> u32 {{
  var at = p.in0_offset;
  var rest = i;
{}  return at;
}}
fn inside(i: u32) -> u32 {{
  var at = 0u;
  var rest = i;
{}  return at;
}}
fn value(i: u32) -> {} {{
  let first = kept(i);
  var acc = {};
  var lost = 0.0;
  for (var r = 0u; r < p.span; r++) {{
    let x = in0(first + inside(r));
    {}
  }}
  return {};
}}
)",
                       kept_place, span_place, ValueType(out), fold.start, fold.step, fold.finish);
  return std::vector{MakeMap(l, std::move(d.body), std::move(d.params))};
}

}  // namespace

extern const WebGpuKernel kReduceKernel = {.op = &ops::kReduce, .lower = Lower};

}  // namespace liveshape::webgpu
