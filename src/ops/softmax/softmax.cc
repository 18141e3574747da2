#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  LS_RETURN_IF_ERROR(NeedFloat(c, 0));
  LS_RETURN_IF_ERROR(NeedAxis(c, "dim", c.in(0).dims.size()).status());
  LS_ASSIGN_OR_RETURN(std::string masked, NeedAttr<std::string>(c, "all_masked"));
  if (masked != "nan" && masked != "zero") return InvalidArgument("all_masked = `{}`", masked);
  return std::vector<TensorType>{c.in(0)};
}

std::vector<ValueId> Softmax(AtenCall& c) {
  ValueId x = c.Tensor("self");
  c.Ignore({"half_to_float"});
  const DType dtype = c.TypeOr("dtype", c.TypeOf(x));
  const int64_t rank = c.Rank(x), dim = c.Axis("dim", rank);
  const bool safe = c.target() == "aten._safe_softmax.default";
  x = c.Cast(x, IsFloat(dtype) ? dtype : DType::kF32);
  if (rank == 0) x = c.Unsqueeze(x, 0);
  x = c.Emit(kSoftmax, {x}, {{"dim", dim}, {"all_masked", std::string(safe ? "zero" : "nan")}});
  return {rank == 0 ? c.Reshape(x, {}) : x};
}

// (x - max) - log(sum(exp(x - max))): the stable form, as torch computes it.
std::vector<ValueId> LogSoftmax(AtenCall& c) {
  ValueId x = c.Tensor("self");
  c.Ignore({"half_to_float"});
  const DType dtype = c.TypeOr("dtype", c.TypeOf(x));
  const int64_t dim = c.Axis("dim", c.Rank(x));
  x = c.Cast(x, IsFloat(dtype) ? dtype : DType::kF32);
  const std::vector<int64_t> dims =
      c.Rank(x) == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{dim};
  auto reduce = [&](const char* kind, ValueId v) {
    return c.Emit(kReduce, {v},
                  {{"kind", std::string(kind)}, {"dims", dims}, {"keepdim", int64_t{1}}});
  };
  ValueId shifted = c.Binary(PwOp::kSub, c.Of(x), c.Of(reduce("max", x)));
  ValueId sum = reduce("sum", c.Unary(PwOp::kExp, shifted));
  return {c.Binary(PwOp::kSub, c.Of(shifted), c.Of(c.Unary(PwOp::kLog, sum)))};
}

const AtenForm kForms[] = {
    {"aten.log_softmax.int", LogSoftmax},    {"aten._log_softmax.default", LogSoftmax},
    {"aten.softmax.int", Softmax},           {"aten._softmax.default", Softmax},
    {"aten._safe_softmax.default", Softmax},
};

}  // namespace

const ir::OpDef kSoftmax = {.name = "softmax", .infer = Infer};
LS_DEFINE_FORMS(Softmax, kForms)

}  // namespace liveshape::ops
