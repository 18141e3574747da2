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
  if (c.node.Find("log") != nullptr) {  // the logarithm of the softmax
    LS_ASSIGN_OR_RETURN(int64_t log, NeedAttr<int64_t>(c, "log"));
    if (log && masked != "nan") return InvalidArgument("log with all_masked = `{}`", masked);
  }
  return std::vector<TensorType>{c.in(0)};
}

std::vector<ValueId> AlongDim(AtenCall& c, bool log) {
  ValueId x = c.Tensor("self");
  c.Ignore({"half_to_float"});
  const DType dtype = c.TypeOr("dtype", c.TypeOf(x));
  const int64_t rank = c.Rank(x), dim = c.Axis("dim", rank);
  const bool safe = c.target() == "aten._safe_softmax.default";
  x = c.Cast(x, IsFloat(dtype) ? dtype : DType::kF32);
  if (rank == 0) x = c.Unsqueeze(x, 0);
  ir::Attrs attrs = {{"dim", dim}, {"all_masked", std::string(safe ? "zero" : "nan")}};
  if (log) attrs.push_back({"log", int64_t{1}});
  x = c.Emit(kSoftmax, {x}, std::move(attrs));
  return {rank == 0 ? c.Reshape(x, {}) : x};
}
std::vector<ValueId> Softmax(AtenCall& c) { return AlongDim(c, false); }
std::vector<ValueId> LogSoftmax(AtenCall& c) { return AlongDim(c, true); }

const AtenForm kForms[] = {
    {"aten.log_softmax.int", LogSoftmax},    {"aten._log_softmax.default", LogSoftmax},
    {"aten.softmax.int", Softmax},           {"aten._softmax.default", Softmax},
    {"aten._safe_softmax.default", Softmax},
};

}  // namespace

const ir::OpDef kSoftmax = {.name = "softmax", .infer = Infer};
LS_DEFINE_FORMS(Softmax, kForms)

}  // namespace liveshape::ops
