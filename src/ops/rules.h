// Small checks that shape rules share.
#pragma once

#include "ir/op.h"

namespace liveshape::ops {

using ir::Dims;
using ir::InferContext;
using ir::TensorType;
using Types = Result<std::vector<TensorType>>;
using sym::Expr;

inline Status NeedInputs(const InferContext& c, size_t required, size_t at_most) {
  if (c.inputs.size() < required || c.inputs.size() > at_most)
    return InvalidArgument("takes {} to {} inputs, has {}", required, at_most, c.inputs.size());
  for (size_t i = 0; i < required; ++i)
    if (!c.has(i)) return InvalidArgument("input {} is missing", i);
  return {};
}

inline Status NeedRank(const InferContext& c, size_t input, size_t at_least) {
  if (c.in(input).dims.size() < at_least)
    return InvalidArgument("input {} needs rank {} or more, has {}", input, at_least,
                           c.in(input).dims.size());
  return {};
}

inline Status NeedFloat(const InferContext& c, size_t input) {
  if (!IsFloat(c.in(input).dtype))
    return InvalidArgument("input {} must be float, is {}", input, Name(c.in(input).dtype));
  return {};
}

// Input i is as long as the last dim of input 0, and of its dtype: a norm's weight or bias.
inline Status NeedRow(const InferContext& c, size_t input) {
  const TensorType &x = c.in(0), &row = c.in(input);
  const auto misfit = [&] {
    return fmt::format("input {} must be [{}] of {}, is {}", input, sym::ToString(x.dims.back()),
                       Name(x.dtype), ir::ToString(row));
  };
  if (row.dtype != x.dtype) return InvalidArgument("{}", misfit());
  return c.RequireEqual(row.dims, {x.dims.back()}, misfit);
}

// The attribute as a T, or an error that names it: shape rules also guard against hostile artifacts.
template <typename T>
Result<T> NeedAttr(const InferContext& c, std::string_view name) {
  const ir::Attr* attr = c.node.Find(name);
  if (attr == nullptr) return InvalidArgument("attribute `{}` is missing", name);
  const T* value = std::get_if<T>(attr);
  if (value == nullptr) return InvalidArgument("attribute `{}` has the wrong type", name);
  return *value;
}

// An axis attribute inside [0, rank).
inline Result<int64_t> NeedAxis(const InferContext& c, std::string_view name, size_t rank) {
  LS_ASSIGN_OR_RETURN(int64_t axis, NeedAttr<int64_t>(c, name));
  if (axis < 0 || axis >= static_cast<int64_t>(rank))
    return InvalidArgument("attribute `{}` = {} is not a dim of rank {}", name, axis, rank);
  return axis;
}

// There is an extreme along the dim.
inline Status NeedElements(const InferContext& c, size_t dim) {
  const Expr size = c.in(0).dims[dim];
  return c.Require(sym::Ge(size, c.table.Int(1)), [&] {
    return fmt::format("max or min over dim {} of size {} has no value", dim, sym::ToString(size));
  });
}

// One expression, as attributes hold scalars.
inline Result<Expr> NeedExpr(const InferContext& c, std::string_view name) {
  LS_ASSIGN_OR_RETURN(std::vector<Expr> list, NeedAttr<std::vector<Expr>>(c, name));
  if (list.size() != 1 || !list[0]) return InvalidArgument("attribute `{}` must be one size", name);
  return list[0];
}

}  // namespace liveshape::ops
