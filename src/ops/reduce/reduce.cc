#include <algorithm>
#include <array>
#include <limits>
#include <optional>

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
    if (reduced && (kind == "max" || kind == "min")) LS_RETURN_IF_ERROR(NeedElements(c, i));
    if (!reduced)
      out.push_back(c.in(0).dims[i]);
    else if (keepdim)
      out.push_back(c.table.Int(1));
  }
  if (next != dims.size()) return InvalidArgument("dims must ascend inside the input's rank");
  return std::vector<TensorType>{{ResultType(kind, c.in(0).dtype), std::move(out)}};
}

// The tensor of a reduction and its dims. `dim` may be an int, a list, absent or empty; the last two mean
// all dims.
struct Reduction {
  AtenCall& c;
  ValueId x;
  std::vector<int64_t> dims;
  bool keepdim;
  std::optional<DType> asked = {};  // of the result

  explicit Reduction(AtenCall& call)
      : c(call), x(c.Tensor("self")), keepdim(c.BoolOr("keepdim", false)) {
    const int64_t rank = c.Rank(x);
    for (int64_t d : c.IntsOr("dim", {})) dims.push_back(c.WrapAxis(d, rank));
    if (dims.empty())
      for (int64_t i = 0; i < rank; ++i) dims.push_back(i);
    if (rank == 0) dims.clear();
    std::sort(dims.begin(), dims.end());
    if (c.Given("dtype")) x = c.Cast(x, *(asked = c.TypeOr("dtype", DType::kF32)));
    c.Ignore({"dtype"});
  }

  ValueId Of(const char* kind, ValueId v, bool keep) const {
    return c.Emit(kReduce, {v},
                  {{"kind", std::string(kind)}, {"dims", dims}, {"keepdim", int64_t{keep}}});
  }
  ValueId Of(const char* kind, ValueId v) const { return Of(kind, v, keepdim); }
  Expr Count() const {
    Expr count = c.table().Int(1);
    for (int64_t d : dims) count = count * c.DimOf(x, d);
    return count;
  }
};

std::vector<ValueId> Reduce(AtenCall& c, const char* kind) {
  Reduction r(c);
  ValueId y = r.Of(kind, r.x);
  return {r.asked ? c.Cast(y, *r.asked) : y};
}

// Two passes, as the definition says: squared distances from the mean, over max(0, n - correction). Halves
// are computed in f32 and rounded once, as torch does.
ValueId Spread(const Reduction& r, DType dtype, bool root) {
  AtenCall& c = r.c;
  const double correction = c.NumberOr("correction", c.BoolOr("unbiased", true) ? 1 : 0);
  if (!c.ok()) return r.x;
  const int64_t whole = static_cast<int64_t>(correction);
  if (static_cast<double>(whole) != correction)
    c.Fail(Unsupported("a fractional correction {}", correction));
  ValueId distance = c.Binary(PwOp::kSub, c.Of(r.x), c.Of(r.Of("mean", r.x, true)));
  ValueId sum = r.Of("sum", c.Unary(PwOp::kSquare, distance));
  const Expr divisor = sym::Max(c.table().Int(0), r.Count() - whole);
  ValueId variance = c.Binary(PwOp::kDiv, c.Of(sum), c.Number(divisor));
  return c.Cast(root ? c.Unary(PwOp::kSqrt, variance) : variance, dtype);
}

DType Widen(Reduction& r) {
  const DType dtype = r.c.TypeOf(r.x);
  if (dtype == DType::kF16 || dtype == DType::kBF16) r.x = r.c.Cast(r.x, DType::kF32);
  return dtype;
}

template <bool root>
std::vector<ValueId> Variance(AtenCall& c) {
  Reduction r(c);
  const DType dtype = Widen(r);
  return {Spread(r, dtype, root)};
}

template <bool root>
std::vector<ValueId> VarianceAndMean(AtenCall& c) {
  Reduction r(c);
  const DType dtype = Widen(r);
  ValueId spread = Spread(r, dtype, root);
  return {spread, c.Cast(r.Of("mean", r.x), dtype)};
}

std::vector<ValueId> VectorNorm(AtenCall& c) {
  Reduction r(c);
  const double p = c.NumberOr("ord", 2);
  if (!c.ok()) return {r.x};
  const DType dtype = Widen(r);
  ValueId size = c.Unary(PwOp::kAbs, r.x);
  ValueId norm;
  if (p == std::numeric_limits<double>::infinity()) {
    norm = r.Of("max", size);
  } else if (p == -std::numeric_limits<double>::infinity()) {
    norm = r.Of("min", size);
  } else if (p == 0) {
    ValueId nonzero = c.Binary(PwOp::kNe, c.Of(size), c.Number(0.0));
    norm = r.Of("sum", c.Cast(nonzero, c.TypeOf(size)));
  } else if (p == 1) {
    norm = r.Of("sum", size);
  } else if (p == 2) {
    norm = c.Unary(PwOp::kSqrt, r.Of("sum", c.Unary(PwOp::kSquare, size)));
  } else {
    ValueId sum = r.Of("sum", c.Binary(PwOp::kPow, c.Of(size), c.Number(p)));
    norm = c.Binary(PwOp::kPow, c.Of(sum), c.Number(1 / p));
  }
  return {c.Cast(norm, dtype)};
}

// v * (g / |v|), where the norm is over all dims but one: of constants, so that it folds to the weight it stands for.
std::vector<ValueId> WeightNorm(AtenCall& c) {
  ValueId v = c.Tensor("v"), g = c.Tensor("g");
  const int64_t kept = c.AxisOr("dim", c.Rank(v), 0);
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < c.Rank(v); ++d)
    if (d != kept) dims.push_back(d);
  const ValueId squares =
      c.Emit(kReduce, {c.Unary(PwOp::kSquare, v)},
             {{"kind", std::string("sum")}, {"dims", std::move(dims)}, {"keepdim", int64_t{1}}});
  const ValueId scale = c.Binary(PwOp::kDiv, c.Of(g), c.Of(c.Unary(PwOp::kSqrt, squares)));
  return {c.Binary(PwOp::kMul, c.Of(v), c.Of(scale))};
}

// One more -inf along each of the dims that may be empty: nothing has no maximum, but a logsumexp, which is -inf.
ValueId NeverEmpty(const Reduction& r) {
  AtenCall& c = r.c;
  const Expr zero = c.table().Int(0);
  Dims before(c.DimsOf(r.x).size(), zero), after = before;
  for (int64_t d : r.dims) {
    const auto at = static_cast<size_t>(d);
    if (c.table().Bounds(c.DimsOf(r.x)[at]).lo < 1) after[at] = c.table().Int(1);
  }
  if (after == before) return r.x;
  return c.Emit(kPad, {r.x},
                {{"before", std::move(before)},
                 {"after", std::move(after)},
                 {"mode", std::string("constant")},
                 {"value", -std::numeric_limits<double>::infinity()}});
}

// log(sum(exp(x - max))) + max, where an infinite max is not subtracted: it would give NaN.
std::vector<ValueId> LogSumExp(AtenCall& c) {
  Reduction r(c);
  if (!c.ok()) return {r.x};
  if (!IsFloat(c.TypeOf(r.x))) r.x = c.Cast(r.x, DType::kF32);
  r.x = NeverEmpty(r);
  const DType dtype = Widen(r), t = c.TypeOf(r.x);
  auto finite = [&](ValueId max) {
    ValueId infinite = c.Pointwise(PwOp::kIsInf, {c.Of(max)}, t, DType::kBool);
    return c.Pointwise(PwOp::kWhere, {c.Of(infinite), c.Number(0.0), c.Of(max)}, t, t);
  };
  ValueId shift = finite(r.Of("max", r.x, true));
  ValueId exp = c.Unary(PwOp::kExp, c.Binary(PwOp::kSub, c.Of(r.x), c.Of(shift)));
  ValueId log = c.Unary(PwOp::kLog, r.Of("sum", exp));
  if (!c.ok()) return {r.x};
  return {c.Cast(c.Binary(PwOp::kAdd, c.Of(log), c.Of(c.Reshape(shift, c.DimsOf(log)))), dtype)};
}

std::vector<ValueId> MinAndMax(AtenCall& c) {
  Reduction r(c);
  return {r.Of("min", r.x), r.Of("max", r.x)};
}

std::vector<ValueId> CountNonzero(AtenCall& c) {
  Reduction r(c);
  return {r.Of("sum", c.Cast(r.x, DType::kBool))};
}

std::vector<ValueId> Sum(AtenCall& c) { return Reduce(c, "sum"); }
std::vector<ValueId> Mean(AtenCall& c) { return Reduce(c, "mean"); }
std::vector<ValueId> Prod(AtenCall& c) { return Reduce(c, "prod"); }
std::vector<ValueId> Max(AtenCall& c) { return Reduce(c, "max"); }
std::vector<ValueId> Min(AtenCall& c) { return Reduce(c, "min"); }
// torch answers a question about u8 in u8.
std::vector<ValueId> Ask(AtenCall& c, const char* kind) {
  Reduction r(c);
  const bool bytes = c.TypeOf(r.x) == DType::kU8;
  ValueId answer = r.Of(kind, r.x);
  return {bytes ? c.Cast(answer, DType::kU8) : answer};
}
std::vector<ValueId> Any(AtenCall& c) { return Ask(c, "any"); }
std::vector<ValueId> All(AtenCall& c) { return Ask(c, "all"); }

const AtenForm kForms[] = {
    {"aten.sum.default", Sum},
    {"aten.sum.dim_IntList", Sum},
    {"aten.mean.default", Mean},
    {"aten.mean.dim", Mean},
    {"aten.prod.default", Prod},
    {"aten.prod.dim_int", Prod},
    {"aten.var.default", Variance<false>},
    {"aten.var.dim", Variance<false>},
    {"aten.var.correction", Variance<false>},
    {"aten.std.default", Variance<true>},
    {"aten.std.dim", Variance<true>},
    {"aten.std.correction", Variance<true>},
    {"aten.var_mean.dim", VarianceAndMean<false>},
    {"aten.var_mean.correction", VarianceAndMean<false>},
    {"aten.std_mean.dim", VarianceAndMean<true>},
    {"aten.std_mean.correction", VarianceAndMean<true>},
    {"aten.linalg_vector_norm.default", VectorNorm},
    {"aten._weight_norm.default", WeightNorm},
    {"aten.logsumexp.default", LogSumExp},
    {"aten.aminmax.default", MinAndMax},
    {"aten.count_nonzero.default", CountNonzero},
    {"aten.count_nonzero.dim_IntList", CountNonzero},
    {"aten.amax.default", Max},
    {"aten.max.default", Max},
    {"aten.amin.default", Min},
    {"aten.min.default", Min},
    {"aten.any.default", Any},
    {"aten.any.dim", Any},
    {"aten.any.dims", Any},
    {"aten.all.default", All},
    {"aten.all.dim", All},
    {"aten.all.dims", All},
};

}  // namespace

const ir::OpDef kReduce = {.name = "reduce", .infer = Infer};
LS_DEFINE_FORMS(Reduce, kForms)

}  // namespace liveshape::ops
