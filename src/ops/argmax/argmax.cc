// Where the extreme of a dim lies. The extreme itself is a reduce: max.dim is the pair of both.
#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  LS_ASSIGN_OR_RETURN(int64_t dim, NeedAxis(c, "dim", c.in(0).dims.size()));
  LS_ASSIGN_OR_RETURN(std::string kind, NeedAttr<std::string>(c, "kind"));
  LS_ASSIGN_OR_RETURN(int64_t keepdim, NeedAttr<int64_t>(c, "keepdim"));
  if (kind != "max" && kind != "min") return InvalidArgument("kind = `{}`", kind);
  LS_RETURN_IF_ERROR(NeedElements(c, static_cast<size_t>(dim)));
  Dims dims = c.in(0).dims;
  if (keepdim)
    dims[static_cast<size_t>(dim)] = c.table.Int(1);
  else
    dims.erase(dims.begin() + dim);
  return std::vector<TensorType>{{DType::kI64, std::move(dims)}};
}

ValueId EmitArg(AtenCall& c, const char* kind, ValueId x, int64_t dim, bool keepdim) {
  return c.Emit(kArgmax, {x},
                {{"kind", std::string(kind)}, {"dim", dim}, {"keepdim", int64_t{keepdim}}});
}

// Without a dim: the index into the flattened tensor. A 0-d tensor is its own only element.
std::vector<ValueId> Arg(AtenCall& c, const char* kind) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  const bool keepdim = c.BoolOr("keepdim", false);
  if (c.Given("dim") && rank > 0) return {EmitArg(c, kind, x, c.Axis("dim", rank), keepdim)};
  c.Ignore({"dim"});
  if (!c.ok()) return {x};
  ValueId flat = c.Reshape(x, {sym::Product(c.table(), c.DimsOf(x))});
  ValueId at = EmitArg(c, kind, flat, 0, false);
  return {keepdim ? c.Reshape(at, Dims(static_cast<size_t>(rank), c.table().Int(1))) : at};
}

std::vector<ValueId> ValueAndArg(AtenCall& c, const char* kind) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x), dim = c.Axis("dim", rank);
  const bool keepdim = c.BoolOr("keepdim", false);
  if (!c.ok()) return {x, x};
  if (rank == 0) return {x, c.Full({}, DType::kI64, 0)};
  ValueId value = c.Emit(kReduce, {x},
                         {{"kind", std::string(kind)},
                          {"dims", std::vector<int64_t>{dim}},
                          {"keepdim", int64_t{keepdim}}});
  return {value, EmitArg(c, kind, x, dim, keepdim)};
}

std::vector<ValueId> Argmax(AtenCall& c) { return Arg(c, "max"); }
std::vector<ValueId> Argmin(AtenCall& c) { return Arg(c, "min"); }
std::vector<ValueId> MaxDim(AtenCall& c) { return ValueAndArg(c, "max"); }
std::vector<ValueId> MinDim(AtenCall& c) { return ValueAndArg(c, "min"); }

const AtenForm kForms[] = {
    {"aten.argmax.default", Argmax},
    {"aten.argmin.default", Argmin},
    {"aten.max.dim", MaxDim},
    {"aten.min.dim", MinDim},
};

}  // namespace

const ir::OpDef kArgmax = {.name = "argmax", .infer = Infer};
LS_DEFINE_FORMS(Argmax, kForms)

}  // namespace liveshape::ops
