#include <algorithm>
#include <array>

#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

// What each kind gives for a float and for an integer or bool input.
DType ResultType(std::string_view kind, DType in) {
  if (kind == "any" || kind == "all") return DType::kBool;
  if ((kind == "sum" || kind == "prod") && !IsFloat(in)) return DType::kI64;
  return in;
}

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_ASSIGN_OR_RETURN(std::string kind, NeedAttr<std::string>(c, "kind"));
  LS_ASSIGN_OR_RETURN(std::vector<int64_t> dims, NeedAttr<std::vector<int64_t>>(c, "dims"));
  LS_ASSIGN_OR_RETURN(int64_t keepdim, NeedAttr<int64_t>(c, "keepdim"));
  static constexpr std::array<std::string_view, 7> kKinds = {"sum", "mean", "prod", "max",
                                                             "min", "any",  "all"};
  if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end())
    return InvalidArgument("unknown reduction `{}`", kind);
  if (kind == "mean") LS_RETURN_IF_ERROR(NeedFloat(c, 0));
  Dims out;
  size_t next = 0;
  for (size_t i = 0; i < c.in(0).dims.size(); ++i) {
    const bool reduced = next < dims.size() && dims[next] == static_cast<int64_t>(i);
    if (reduced) ++next;
    if (!reduced)
      out.push_back(c.in(0).dims[i]);
    else if (keepdim)
      out.push_back(c.table.Int(1));
  }
  if (next != dims.size()) return InvalidArgument("dims must ascend inside the input's rank");
  return std::vector<TensorType>{{ResultType(kind, c.in(0).dtype), std::move(out)}};
}

// `dim` may be an int, a list, absent or empty; the last two mean all dims.
std::vector<ValueId> Reduce(AtenCall& c, const char* kind) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  std::vector<int64_t> dims;
  for (int64_t d : c.IntsOr("dim", {})) dims.push_back(c.WrapAxis(d, rank));
  const bool keepdim = c.BoolOr("keepdim", false);
  if (dims.empty())
    for (int64_t i = 0; i < rank; ++i) dims.push_back(i);
  if (rank == 0) dims.clear();
  std::sort(dims.begin(), dims.end());
  if (c.Given("dtype")) x = c.Cast(x, c.TypeOr("dtype", DType::kF32));
  c.Ignore({"dtype"});
  return {c.Emit(
      kReduce, {x},
      {{"kind", std::string(kind)}, {"dims", std::move(dims)}, {"keepdim", int64_t{keepdim}}})};
}

// Two passes, as the definition says: mean of squared distances, scaled by n / max(0, n - correction).
std::vector<ValueId> Variance(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  std::vector<int64_t> dims;
  for (int64_t d : c.IntsOr("dim", {})) dims.push_back(c.WrapAxis(d, rank));
  if (dims.empty())
    for (int64_t i = 0; i < rank; ++i) dims.push_back(i);
  std::sort(dims.begin(), dims.end());
  const bool keepdim = c.BoolOr("keepdim", false);
  const double correction = c.NumberOr("correction", c.BoolOr("unbiased", true) ? 1 : 0);
  if (!c.ok()) return {x};
  auto reduce = [&](const char* kind, ValueId v, bool keep) {
    return c.Emit(kReduce, {v},
                  {{"kind", std::string(kind)}, {"dims", dims}, {"keepdim", int64_t{keep}}});
  };
  ValueId distance = c.Binary(PwOp::kSub, c.Of(x), c.Of(reduce("mean", x, true)));
  ValueId sum = reduce("sum", c.Unary(PwOp::kSquare, distance), keepdim);
  Expr count = c.table().Int(1);
  for (int64_t d : dims) count = count * c.DimsOf(x)[static_cast<size_t>(d)];
  const int64_t whole = static_cast<int64_t>(correction);
  if (static_cast<double>(whole) != correction)
    c.Fail(Unsupported("a fractional correction {}", correction));
  const Expr divisor = sym::Max(c.table().Int(0), count - whole);
  return {c.Binary(PwOp::kDiv, c.Of(sum), c.Number(divisor))};
}

std::vector<ValueId> Sum(AtenCall& c) { return Reduce(c, "sum"); }
std::vector<ValueId> Mean(AtenCall& c) { return Reduce(c, "mean"); }
std::vector<ValueId> Prod(AtenCall& c) { return Reduce(c, "prod"); }
std::vector<ValueId> Max(AtenCall& c) { return Reduce(c, "max"); }
std::vector<ValueId> Min(AtenCall& c) { return Reduce(c, "min"); }
std::vector<ValueId> Any(AtenCall& c) { return Reduce(c, "any"); }
std::vector<ValueId> All(AtenCall& c) { return Reduce(c, "all"); }

const AtenForm kForms[] = {
    {"aten.sum.default", Sum},   {"aten.sum.dim_IntList", Sum},
    {"aten.mean.default", Mean}, {"aten.mean.dim", Mean},
    {"aten.prod.default", Prod}, {"aten.prod.dim_int", Prod},
    {"aten.var.dim", Variance},  {"aten.var.correction", Variance},
    {"aten.amax.default", Max},  {"aten.max.default", Max},
    {"aten.amin.default", Min},  {"aten.min.default", Min},
    {"aten.any.default", Any},   {"aten.any.dim", Any},
    {"aten.any.dims", Any},      {"aten.all.default", All},
    {"aten.all.dim", All},       {"aten.all.dims", All},
};

}  // namespace

const ir::OpDef kReduce = {.name = "reduce", .infer = Infer};
LS_DEFINE_FORMS(Reduce, kForms)

}  // namespace liveshape::ops
