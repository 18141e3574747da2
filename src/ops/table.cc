// Every op, one line each; every folder's ATen forms, one line each.
#include <string_view>
#include <unordered_map>

#include "ops/forms.h"
#include "ops/ops.h"

namespace liveshape::ops {

std::span<const ir::OpDef* const> All() {
  static constexpr const ir::OpDef* kOps[] = {
      // clang-format off: one line each
      &kAdaptiveMean,
      &kArgmax,
      &kAttention,
      &kCat,
      &kConv,
      &kCopy,
      &kCumsum,
      &kEmbedding,
      &kExpand,
      &kIndex,
      &kIndexPut,
      &kItem,
      &kLayerNorm,
      &kLinear,
      &kMatmul,
      &kNonzero,
      &kPad,
      &kPermute,
      &kPointwise,
      &kPool,
      &kReduce,
      &kRepeatIndex,
      &kReshape,
      &kRmsNorm,
      &kRope,
      &kSlice,
      &kSoftmax,
      &kSort,
      &kViewWrite,
      // clang-format on
  };
  return kOps;
}

const ir::OpDef* Find(std::string_view name) {
  for (const ir::OpDef* op : All())
    if (name == op->name) return op;
  return nullptr;
}

std::vector<const AtenForm*> AllForms() {
  std::vector<const AtenForm*> forms;
  for (std::span<const AtenForm> folder : {
           // clang-format off: one line each
           ActivationForms(),
           ArgmaxForms(),
           AttentionForms(),
           BatchNormForms(),
           CatForms(),
           ConvForms(),
           CumsumForms(),
           EmbeddingForms(),
           FunctionForms(),
           GroupNormForms(),
           IndexForms(),
           IndexPutForms(),
           LayerNormForms(),
           LinearForms(),
           MatmulForms(),
           NonzeroForms(),
           PadForms(),
           PointwiseForms(),
           PoolForms(),
           ReduceForms(),
           RepeatIndexForms(),
           ResizeForms(),
           RmsNormForms(),
           SoftmaxForms(),
           SortForms(),
           ViewForms(),
           ViewWriteForms(),
           // clang-format on
       })
    for (const AtenForm& form : folder) forms.push_back(&form);
  return forms;
}

const AtenForm* FindForm(std::string_view target) {
  static const auto* const by_target = [] {
    auto* map = new std::unordered_map<std::string_view, const AtenForm*>();
    for (const AtenForm* form : AllForms()) map->emplace(form->target, form);
    return map;
  }();
  auto it = by_target->find(target);
  return it == by_target->end() ? nullptr : it->second;
}

}  // namespace liveshape::ops
