// Bytes with what keeps them alive, and their alignment. Private to artifact/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "artifact/format.h"

namespace liveshape::artifact {

struct Bytes {
  std::span<const std::byte> data = {};
  std::shared_ptr<const void> owner = {};
};

// What kernels expect of constants.
inline bool IsAligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % kAlignment == 0;
}

inline Bytes AlignedCopy(std::span<const std::byte> bytes) {
  constexpr std::align_val_t kAlign{kAlignment};
  if (bytes.empty()) return {};
  void* memory = ::operator new(bytes.size(), kAlign);
  std::shared_ptr<void> owner(memory, [](void* p) { ::operator delete(p, kAlign); });
  std::memcpy(memory, bytes.data(), bytes.size());
  return {{static_cast<const std::byte*>(memory), bytes.size()}, std::move(owner)};
}

}  // namespace liveshape::artifact
