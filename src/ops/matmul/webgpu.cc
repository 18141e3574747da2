#include "backends/webgpu/wgsl.h"
#include "ops/matmul/webgpu_product.h"
#include "ops/ops.h"

namespace liveshape::webgpu {

Result<std::vector<Dispatch>> LowerProduct(const Lowering& l, Product product) {
  sym::Table& table = l.table();
  const auto [batch, m, n, k] = std::tuple(product.batch, product.m, product.n, product.k);
  Dispatch base = std::move(product.operands);
  for (auto [name, expr] : {std::pair("batch", batch), {"m", m}, {"n", n}, {"k", k}})
    base.params.push_back({.name = name, .expr = expr});
  if (l.out(0).dtype != DType::kF32) {
    // What is smaller than a word: an element an invocation, packed by the map.
    base.body += R"(fn value(i: u32) -> f32 {
  let n = i % p.n;
  var sum = 0.0;
  for (var k = 0u; k < p.k; k++) { sum += left(i / p.n / p.m, i / p.n % p.m, k) * right(i / p.n / p.m, n, k); }
  return sum + addend(n);
}
)";
    return std::vector{MakeMap(l, std::move(base.body), std::move(base.params))};
  }
  constexpr int64_t kFewRows = 4;
  const Expr few = sym::Le(m, table.Int(kFewRows)), none = table.Int(0);
  const auto up = [&](Expr e, int64_t to) { return sym::CeilDiv(e, table.Int(to)); };
  Dispatch tiles = base, rows = std::move(base);
  tiles.body += wgsl::kGemm;
  tiles.groups = sym::Select(few, none, batch * up(m, 32) * up(n, 32));
  rows.body += wgsl::kGemv;
  rows.groups = sym::Select(few, batch * m * up(n, 16), none);
  // A route that no live shape takes is not built.
  std::vector<Dispatch> routes;
  for (Dispatch* route : {&rows, &tiles})
    if (table.Bounds(route->groups).hi > 0 || routes.empty()) routes.push_back(std::move(*route));
  return routes;
}

namespace {

Status CheckFloat(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  if (!IsFloat(dtype)) return Unsupported("a product of {} on WebGPU", Name(dtype));
  return ValueType(dtype) ? Status() : NoSuchType(dtype);
}

// Any strides: the batch is found by its own index, rows and columns by theirs.
Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  LS_RETURN_IF_ERROR(CheckFloat(l));
  const size_t rank = l.in(0).rank;
  const ir::Dims &a = l.in_dims(0), &b = l.in_dims(1);
  Product product{.batch = l.numel({a.begin(), a.end() - 2}),
                  .m = a[rank - 2],
                  .n = b[rank - 1],
                  .k = a[rank - 1]};
  Dispatch& d = product.operands;
  for (size_t i : {0, 1}) {
    plan::Operand batch = l.in(i);
    batch.rank = static_cast<uint8_t>(rank - 2);
    AddStridedIndex(l, batch, fmt::format("in{}", i), d);
    d.params.push_back({.name = fmt::format("in{}_row", i),
                        .slot = l.in(i).strides_at + static_cast<uint32_t>(rank - 2)});
    d.params.push_back({.name = fmt::format("in{}_col", i),
                        .slot = l.in(i).strides_at + static_cast<uint32_t>(rank - 1)});
  }
  d.body += R"(fn left(batch: u32, m: u32, k: u32) -> f32 {
  return in0(at_in0(batch) + m * p.in0_row + k * p.in0_col);
}
fn right(batch: u32, n: u32, k: u32) -> f32 {
  return in1(at_in1(batch) + k * p.in1_row + n * p.in1_col);
}
fn addend(n: u32) -> f32 { return 0.0; }
)";
  return LowerProduct(l, std::move(product));
}

}  // namespace

extern const WebGpuKernel kMatmulKernel = {.op = &ops::kMatmul, .lower = Lower};

}  // namespace liveshape::webgpu
