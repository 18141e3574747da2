// The forms of each op folder, gathered without static initialisers (the linker loses those).
#pragma once

#include <span>

#include "ops/aten.h"

#define LS_DEFINE_FORMS(Folder, forms) \
  std::span<const AtenForm> Folder##Forms() { return forms; }

namespace liveshape::ops {

std::span<const AtenForm> ActivationForms();
std::span<const AtenForm> ArgmaxForms();
std::span<const AtenForm> AttentionForms();
std::span<const AtenForm> BatchNormForms();
std::span<const AtenForm> CatForms();
std::span<const AtenForm> ConvForms();
std::span<const AtenForm> CumsumForms();
std::span<const AtenForm> EinsumForms();
std::span<const AtenForm> EmbeddingForms();
std::span<const AtenForm> FunctionForms();
std::span<const AtenForm> GroupNormForms();
std::span<const AtenForm> IndexForms();
std::span<const AtenForm> IndexPutForms();
std::span<const AtenForm> LayerNormForms();
std::span<const AtenForm> LinearForms();
std::span<const AtenForm> MatmulForms();
std::span<const AtenForm> NonzeroForms();
std::span<const AtenForm> PadForms();
std::span<const AtenForm> PointwiseForms();
std::span<const AtenForm> PoolForms();
std::span<const AtenForm> ReduceForms();
std::span<const AtenForm> RepeatIndexForms();
std::span<const AtenForm> ResizeForms();
std::span<const AtenForm> RmsNormForms();
std::span<const AtenForm> SoftmaxForms();
std::span<const AtenForm> SortForms();
std::span<const AtenForm> ViewForms();
std::span<const AtenForm> ViewWriteForms();

}  // namespace liveshape::ops
