// A write through a view: slice_scatter, select_scatter, and what functionalisation makes of `v.copy_(x)`.
#include "ops/aten.h"
#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 2, 2));
  LS_ASSIGN_OR_RETURN(Dims sizes, NeedAttr<Dims>(c, "sizes"));
  LS_ASSIGN_OR_RETURN(Dims strides, NeedAttr<Dims>(c, "strides"));
  LS_ASSIGN_OR_RETURN(const Expr offset, NeedExpr(c, "offset"));
  if (strides.size() != sizes.size()) return InvalidArgument("sizes and strides differ in rank");
  const auto misfit = [&] {
    return fmt::format("source {} does not fit the place written to", ir::ToString(c.in(1)));
  };
  if (c.in(1).dtype != c.in(0).dtype) return InvalidArgument("{}", misfit());
  LS_RETURN_IF_ERROR(c.RequireEqual(c.in(1).dims, sizes, misfit));
  const Expr zero = c.table.Int(0);
  Expr inside = sym::Ge(offset, zero), last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    inside = sym::And(inside, sym::Ge(strides[i], zero));
    last = last + (sizes[i] - 1) * strides[i];
  }
  inside = sym::And(inside, sym::Lt(last, sym::Product(c.table, c.in(0).dims)));
  const Expr nothing = sym::Eq(sym::Product(c.table, sizes), zero);
  LS_RETURN_IF_ERROR(c.Require(sym::Or(nothing, inside), [&] {
    return fmt::format("the place written to does not lie inside {}", ir::ToString(c.in(0)));
  }));
  return std::vector<TensorType>{c.in(0)};
}

ir::Cost CostOf(const InferContext& c, const TensorType& out) {
  return {.reads = {c.table.Int(0)}, .written_in_place = sym::Product(c.table, c.in(1).dims)};
}

// Scatter forms are the view form's write: build the view on a stand-in of the base, read its layout.
std::vector<ValueId> Scatter(AtenCall& c, const char* view_target) {
  ValueId base = c.Tensor("self"), source = c.Tensor("src");
  if (!c.ok()) return {base};
  std::vector<ValueId> view = FindForm(view_target)->build(c);
  if (!c.ok() || view.empty()) return {base};
  return {WriteThroughView(c, base, view[0], source)};
}

std::vector<ValueId> SliceScatter(AtenCall& c) { return Scatter(c, "aten.slice.Tensor"); }
std::vector<ValueId> SelectScatter(AtenCall& c) { return Scatter(c, "aten.select.int"); }

std::vector<ValueId> Copy(AtenCall& c) {
  ValueId self = c.Tensor("self");
  c.Ignore({"non_blocking"});
  return {c.Filled(c.DimsOf(self), c.TypeOf(self), c.Arg("src"))};
}

const AtenForm kForms[] = {
    {"aten.slice_scatter.default", SliceScatter},
    {"aten.select_scatter.default", SelectScatter},
    {"aten.copy.default", Copy},
};

}  // namespace

ValueId WriteThroughView(AtenCall& c, ValueId base, ValueId view, ValueId source) {
  const ir::Graph& graph = c.graph();
  const auto layout = ir::LayoutInBase(graph, graph.Producers(), base, view);
  if (!layout) {
    c.Fail(Unsupported("a write through a view of `{}` that strides cannot express",
                       graph.value(base).name));
    return base;
  }
  source = c.Expand(c.Cast(source, c.TypeOf(base)), c.DimsOf(view));
  return c.Emit(
      kViewWrite, {base, source},
      {{"sizes", c.DimsOf(view)}, {"strides", layout->strides}, {"offset", Dims{layout->offset}}});
}

const ir::OpDef kViewWrite = {
    .name = "view_write", .infer = Infer, .in_place_input = 0, .cost = CostOf};
LS_DEFINE_FORMS(ViewWrite, kForms)

}  // namespace liveshape::ops
