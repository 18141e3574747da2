// Every op, one line each; every folder's ATen forms, one line each.
#include <fmt/format.h>

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

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

namespace {

// torch's second names of ops; overloads and arguments are those of the first.
constexpr std::pair<std::string_view, std::string_view> kSameOps[] = {
    {"absolute", "abs"},
    {"arccos", "acos"},
    {"arcsin", "asin"},
    {"arctan", "atan"},
    {"arctan2", "atan2"},
    {"clip", "clamp"},
    {"divide", "div"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"multiply", "mul"},
    {"negative", "neg"},
    {"not_equal", "ne"},
    {"special_erf", "erf"},
    {"special_exp2", "exp2"},
    {"special_expit", "sigmoid"},
    {"special_expm1", "expm1"},
    {"special_log1p", "log1p"},
    {"subtract", "sub"},
};

struct SecondForms {
  std::deque<std::string> targets;  // what the forms' own point at
  std::vector<AtenForm> forms;
};

const std::vector<AtenForm>& SecondNames(const std::vector<const AtenForm*>& forms) {
  static const SecondForms* const second_names = [&] {
    auto* made = new SecondForms();
    for (const AtenForm* form : forms) {
      const std::string_view target = form->target;
      const size_t begin = target.find('.') + 1, end = target.find('.', begin);
      for (const auto& [second, first] : kSameOps) {
        if (target.substr(begin, end - begin) != first) continue;
        made->targets.push_back(fmt::format("aten.{}{}", second, target.substr(end)));
        made->forms.push_back({made->targets.back().c_str(), form->build, form->aliases});
      }
    }
    return made;
  }();
  return second_names->forms;
}

}  // namespace

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
           EinsumForms(),
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
  for (const AtenForm& form : SecondNames(forms)) forms.push_back(&form);
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
