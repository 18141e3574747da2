// Values for the parameters of an archive that was saved without them (`liveshape.save(..., weights=False)`), so
// that a model can be measured where its weights cannot be brought.
//
//   RandomWeights random(archive, seed);
//   std::span<const std::byte> storage = random.Storage(weight);    // as archive.storage(weight).bytes would be
//
// A value depends on the seed, its storage's name and its place there: ties stay ties, views of one storage agree,
// and every machine makes the same model. Matrices have deviation 0.02, as initialisers have it; vectors lie around
// 1 (weights of norms), those called `bias` around 0: deep models stay finite in f16.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "import/pt2/archive.h"

namespace liveshape::import {

class RandomWeights {
 public:
  RandomWeights(const pt2::Pt2Archive& archive, uint64_t seed) : archive_(archive), seed_(seed) {}

  // Of a weight that was dropped; kUnsupported where it is not of floats. The bytes live as long as `owner`.
  Result<std::span<const std::byte>> Storage(const pt2::Weight& weight,
                                             std::shared_ptr<const void>& owner);

 private:
  const pt2::Pt2Archive& archive_;
  uint64_t seed_;
  std::map<size_t, std::shared_ptr<const std::vector<std::byte>>> made_;  // by storage
};

}  // namespace liveshape::import
