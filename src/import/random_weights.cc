#include "import/random_weights.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/half.h"

namespace liveshape::import {
namespace {

using pt2::ScalarType;

// splitmix64: a counter in, 64 well mixed bits out.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Mean 0, deviation 1: the sum of four uniform numbers is near enough to normal and costs one Mix.
float Normal(uint64_t bits) {
  constexpr float kMean = 4 * 32767.5f, kDeviation = 37837.23f;  // 65536 / sqrt(3)
  const uint64_t sum =
      (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  return (static_cast<float>(sum) - kMean) / kDeviation;
}

int64_t StorageElements(const pt2::Weight& w) {
  int64_t last = w.storage_offset;
  for (size_t i = 0; i < w.sizes.size(); ++i) {
    if (w.sizes[i] == 0) return 0;
    last += (w.sizes[i] - 1) * w.strides[i];  // measured before: see CheckWithinStorage
  }
  return last + 1;
}

}  // namespace

Result<std::span<const std::byte>> RandomWeights::Storage(const pt2::Weight& weight,
                                                          std::shared_ptr<const void>& owner) {
  std::shared_ptr<const std::vector<std::byte>>& made = made_[weight.storage];
  if (!made) {
    int64_t elements = 0;
    for (const pt2::Weight& w : archive_.weights())
      if (w.storage == weight.storage) elements = std::max(elements, StorageElements(w));
    // Sizes come from the file, and nothing stands behind them.
    constexpr int64_t kMost = int64_t{1} << 40;
    if (elements > kMost / 8)
      return ResourceExhausted("`{}` has {} elements: too many to make up", weight.name, elements);
    uint64_t key = seed_;
    for (char c : archive_.storage(weight).path) key = Mix(key ^ static_cast<uint8_t>(c));
    const bool vector = weight.sizes.size() < 2, bias = weight.name.ends_with("bias");
    const float mean = vector && !bias ? 1.0f : 0.0f;
    auto bytes = std::make_shared<std::vector<std::byte>>(
        static_cast<size_t>(elements * pt2::ElementBytes(weight.dtype)));
    const auto fill = [&](auto encode) {
      using T = decltype(encode(0.0f));
      T* to = reinterpret_cast<T*>(bytes->data());
      for (int64_t i = 0; i < elements; ++i)
        to[i] = encode(mean + 0.02f * Normal(Mix(key + static_cast<uint64_t>(i))));
    };
    switch (weight.dtype) {
      case ScalarType::kF32: fill([](float v) { return v; }); break;
      case ScalarType::kF64: fill([](float v) { return static_cast<double>(v); }); break;
      case ScalarType::kF16: fill([](float v) { return F16FromF32(v); }); break;
      case ScalarType::kBF16: fill([](float v) { return BF16FromF32(v); }); break;
      default:
        return Unsupported("`{}` was saved without weights and is {}: only floats can be made up",
                           weight.name, Name(weight.dtype));
    }
    made = std::move(bytes);
  }
  owner = made;
  return std::span<const std::byte>(*made);
}

}  // namespace liveshape::import
