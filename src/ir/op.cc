#include "ir/op.h"

namespace liveshape::ir {

Layout ContiguousLayout(sym::Table& table, const Dims& dims) {
  Layout layout{Dims(dims.size()), table.Int(0)};
  Expr stride = table.Int(1);
  for (size_t i = dims.size(); i-- > 0;) {
    layout.strides[i] = stride;
    if (i > 0) stride = stride * dims[i];
  }
  return layout;
}

bool IsContiguous(const Layout& layout, const Dims& dims) {
  if (dims.empty()) return true;
  sym::Table& table = dims[0].table();
  for (Expr dim : dims)
    if (dim.is_int(0)) return true;
  const Layout dense = ContiguousLayout(table, dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].is_int(1) || layout.strides[i] == dense.strides[i]) continue;
    if (table.IsTrue(Eq(layout.strides[i], dense.strides[i])) != sym::Tri::kYes) return false;
  }
  return true;
}

bool Broadcasts(Expr dim) { return dim.table().Bounds(dim).hi <= 1; }

Expr CanExpand(Expr dim, Expr size) {
  const Expr same = Eq(dim, size);
  return Broadcasts(dim) ? Or(Eq(dim, dim.table().Int(1)), same) : same;
}

ValueId RootOfViews(const Graph& graph, std::span<const uint32_t> producers, ValueId view) {
  while (producers[view] != Graph::kNoNode && graph.nodes[producers[view]].op->view)
    view = graph.nodes[producers[view]].inputs[0];
  return view;
}

std::optional<Layout> LayoutInBase(const Graph& graph, std::span<const uint32_t> producers,
                                   ValueId base, ValueId view) {
  std::vector<const Node*>
      chain;  // from the view back to the base; a loop, since programs may be hostile
  for (ValueId v = view; v != base; v = chain.back()->inputs[0]) {
    if (producers[v] == Graph::kNoNode || graph.nodes[producers[v]].op->view == nullptr)
      return std::nullopt;
    chain.push_back(&graph.nodes[producers[v]]);
  }
  std::optional<Layout> layout = ContiguousLayout(graph.table(), graph.type(base).dims);
  for (size_t i = chain.size(); i-- > 0 && layout;) {
    const TensorType* input = &graph.type(chain[i]->inputs[0]);
    layout = chain[i]->op->view({graph.table(), *chain[i], {&input, 1}},
                                graph.type(chain[i]->outputs[0]), *layout);
  }
  return layout;
}

}  // namespace liveshape::ir
