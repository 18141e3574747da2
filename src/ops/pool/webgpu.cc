// An output element an invocation. Halves are computed in f32 and rounded once.
#include "backends/webgpu/kernel.h"
#include "ops/ops.h"
#include "ops/webgpu_window.h"

namespace liveshape::webgpu {
namespace {

// Below or equal to every value of the dtype.
const char* Lowest(DType dtype) {
  switch (dtype) {
    case DType::kI64: return "vec2<u32>(0u, 0x80000000u)";
    case DType::kI32: return "(-2147483647 - 1)";
    case DType::kI16: return "-32768";
    case DType::kI8: return "-128";
    case DType::kU8: return "0";
    default: return "f32_bits(0xff800000u)";
  }
}

const char* MaxStep(DType dtype) {
  if (IsFloat(dtype)) return "acc = math_max(acc, v);";
  return dtype == DType::kI64 ? "if (i64_lt(acc, v)) { acc = v; }" : "acc = max(acc, v);";
}

constexpr char kCounted[] = R"(
fn counted(begin: i32, size: u32, after: u32, extent: u32) -> i32 {
  let end = min(begin + i32(size), i32(extent + after));
  if (p.count_padding != 0u) { return end - begin; }
  return min(end, i32(extent)) - max(begin, 0);
}
fn divisor(row: u32, column: u32) -> f32 {
  if (p.divisor != 0u) { return f32(p.divisor); }
  return f32(counted(i32(row * p.stride_h - p.before_h), p.size_h, p.after_h, p.x_d2) *
             counted(i32(column * p.stride_w - p.before_w), p.size_w, p.after_w, p.x_d3));
}
)";

constexpr char kPlace[] = R"(  let column = i % p.out_d3;
  let row = i / p.out_d3 % p.out_d2;
  let plane = i / (p.out_d3 * p.out_d2);
  let first = p.x_offset + plane / p.out_d1 * p.x_s0 + plane % p.out_d1 * p.x_s1;
)";

Result<std::vector<Dispatch>> LowerPool(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  LS_ASSIGN_OR_RETURN(const ops::Windows windows, ops::ReadWindows(*l.node));
  const bool max = l.node->String("kind") == "max";
  Dispatch d;
  AddStrides(l.in(0), "x", d);
  AddOutputPlaces(l, d);
  AddWindows(l, windows, d);
  for (const char* name : {"count_padding", "divisor"})
    d.params.push_back({.name = name, .expr = l.table().Int(l.node->Int(name))});
  if (!max) d.body = kCounted;
  d.body += fmt::format(R"(fn value(i: u32) -> {} {{
{}  var acc = {};
  for (var a = 0u; a < p.size_h; a++) {{
    let y = row * p.stride_h + a * p.dilation_h - p.before_h;
    if (y >= p.x_d2) {{ continue; }}
    for (var b = 0u; b < p.size_w; b++) {{
      let x = column * p.stride_w + b * p.dilation_w - p.before_w;
      if (x >= p.x_d3) {{ continue; }}
      let v = in0(first + y * p.x_s2 + x * p.x_s3);
      {}
    }}
  }}
  return {};
}}
)",
                        ValueType(dtype), kPlace, max ? Lowest(dtype) : "0.0",
                        max ? MaxStep(dtype) : "acc += v;",
                        max ? "acc" : "math_div(acc, divisor(row, column))");
  return std::vector{MakeMap(l, std::move(d.body), std::move(d.params))};
}

Result<std::vector<Dispatch>> LowerAdaptive(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  Dispatch d;
  AddStrides(l.in(0), "x", d);
  AddOutputPlaces(l, d);
  d.body = fmt::format(R"(fn value(i: u32) -> f32 {{
{}  let top = row * p.x_d2 / p.out_d2;
  let bottom = ((row + 1u) * p.x_d2 + p.out_d2 - 1u) / p.out_d2;
  let left = column * p.x_d3 / p.out_d3;
  let right = ((column + 1u) * p.x_d3 + p.out_d3 - 1u) / p.out_d3;
  var sum = 0.0;
  for (var y = top; y < bottom; y++) {{
    for (var x = left; x < right; x++) {{ sum += in0(first + y * p.x_s2 + x * p.x_s3); }}
  }}
  return sum / f32(bottom - top) / f32(right - left);
}}
)",
                       kPlace);
  return std::vector{MakeMap(l, std::move(d.body), std::move(d.params))};
}

}  // namespace

extern const WebGpuKernel kPoolKernel = {.op = &ops::kPool, .lower = LowerPool};
extern const WebGpuKernel kAdaptiveMeanKernel = {.op = &ops::kAdaptiveMean, .lower = LowerAdaptive};

}  // namespace liveshape::webgpu
