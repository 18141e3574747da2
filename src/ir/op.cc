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

}  // namespace liveshape::ir
