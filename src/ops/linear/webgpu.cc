#include "ops/linear/webgpu_fuse.h"
#include "ops/linear/webgpu_weight.h"
#include "ops/matmul/webgpu_product.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

// GEMV for few rows, tiles whose size follows the number of them for many. A route that no live shape takes is not
// built.
std::vector<Dispatch> PanelRoutes(const Lowering& l, const PanelProduct& product) {
  const Tuning& t = l.tuning;
  sym::Table& table = l.table();
  const Expr none = table.Int(0), few = sym::Le(product.m, table.Int(t.few_rows));
  Dispatch rows = PanelGemv(l, product);
  rows.groups = sym::Select(few, rows.groups, none);
  std::vector<Dispatch> routes{std::move(rows)};
  Expr left = sym::Select(few, none, table.Int(1));  // 1: no route has been chosen yet
  const auto add = [&](Tile tile, auto chosen) {
    if (tile.bytes() > l.limits.workgroup_bytes) tile.depth = 16;
    if (tile.invocations() > l.limits.workgroup_invocations) tile.splits = 1;
    if (tile.invocations() > l.limits.workgroup_invocations) return;
    Dispatch d = PanelGemm(l, product, tile);
    const Expr here = chosen(d.groups);
    d.groups = left * sym::Select(here, d.groups, none);
    left = left * sym::Select(here, none, table.Int(1));
    routes.push_back(std::move(d));
  };
  add({t.big_tile_m, t.big_tile_n, t.big_tile_columns, t.big_tile_depth, 1},
      [&](Expr groups) { return sym::Le(table.Int(t.big_tile_groups), groups); });
  add({t.tile_m, t.tile_n, t.tile_columns, t.tile_depth, t.tile_splits},
      [&](Expr groups) { return sym::Le(table.Int(t.small_tile_groups), groups); });
  add({t.tile_m / 2, t.tile_n, t.tile_columns, t.tile_depth, t.tile_splits},
      [&](Expr) { return sym::Le(none, table.Int(0)); });
  std::erase_if(routes, [&](const Dispatch& d) { return table.Bounds(d.groups).hi <= 0; });
  return routes;
}

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  if (!IsFloat(dtype)) return Unsupported("a product of {} on WebGPU", Name(dtype));
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  const ir::Dims &x = l.in_dims(0), &w = l.in_dims(1);
  PanelProduct panels{.bias = l.has(2) ? 2 : kAbsent, .m = l.numel({x.begin(), x.end() - 1})};
  if (ServesPanels(l, panels)) return PanelRoutes(l, panels);
  Product product{
      .batch = l.table().Int(1), .m = l.numel({x.begin(), x.end() - 1}), .n = w[0], .k = w[1]};
  Dispatch& d = product.operands;
  AddWeight(l, 1, d);
  d.params.push_back({.name = "in0_offset", .slot = l.in(0).offset_at});
  d.body +=
      R"(fn left(batch: u32, m: u32, k: u32) -> f32 { return in0(p.in0_offset + m * p.k + k); }
fn right(batch: u32, n: u32, k: u32) -> f32 { return weight(n, k); }
)";
  if (l.has(2)) {
    d.params.push_back({.name = "in2_offset", .slot = l.in(2).offset_at});
    d.params.push_back({.name = "in2_stride", .slot = l.in(2).strides_at});
    d.body += "fn addend(n: u32) -> f32 { return in2(p.in2_offset + n * p.in2_stride); }\n";
  } else {
    d.body += "fn addend(n: u32) -> f32 { return 0.0; }\n";
  }
  return LowerProduct(l, std::move(product));
}

plan::Need NeedOf(const ir::Node&, size_t input) {
  return input == 0 ? plan::Need::kDense : plan::Need::kStrided;
}

}  // namespace

extern const WebGpuKernel kLinearKernel = {
    .op = &ops::kLinear, .lower = Lower, .need = NeedOf, .fuse = FuseLinear};

}  // namespace liveshape::webgpu
