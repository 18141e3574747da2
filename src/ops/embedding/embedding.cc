#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 2, 2));
  if (c.in(0).dims.size() != 2) return InvalidArgument("weight must be a matrix");
  if (c.in(1).dtype != DType::kI64 && c.in(1).dtype != DType::kI32)
    return InvalidArgument("ids must be i64 or i32, are {}", Name(c.in(1).dtype));
  Dims dims = c.in(1).dims;
  dims.push_back(c.in(0).dims[1]);
  return std::vector<TensorType>{{c.in(0).dtype, std::move(dims)}};
}

ir::Cost CostOf(const InferContext& c, const TensorType& out) {
  return {.reads = {sym::Product(c.table, out.dims)}};
}

std::vector<ValueId> Embedding(AtenCall& c) {
  ValueId weight = c.Tensor("weight"), ids = c.Tensor("indices");
  c.Ignore({"padding_idx", "scale_grad_by_freq", "sparse"});  // for training
  return {c.Emit(kEmbedding, {weight, ids})};
}

const AtenForm kForms[] = {{"aten.embedding.default", Embedding}};

}  // namespace

const ir::OpDef kEmbedding = {.name = "embedding",
                              .infer = Infer,
                              .packed_input = 0,
                              .reads_quantised = true,
                              .cost = CostOf};
LS_DEFINE_FORMS(Embedding, kForms)

}  // namespace liveshape::ops
