#include "backends/cpu/join.h"

#include <algorithm>
#include <functional>

namespace liveshape::cpu {
namespace {

// The memory that a view reaches.
using Memory = std::span<const std::byte>;
Memory MemoryOf(const View& view) {
  int64_t first = 0, last = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.dims[d] == 0) return {};
    const int64_t reach = (view.dims[d] - 1) * view.strides[d];
    (reach < 0 ? first : last) += reach;
  }
  const auto size = static_cast<int64_t>(SizeOf(view.dtype));
  return {view.data + first * size, view.data + (last + 1) * size};
}
bool Overlap(Memory a, Memory b) {
  return std::less<>()(a.data(), b.data() + b.size()) &&
         std::less<>()(b.data(), a.data() + a.size());
}

// Whether an element of `view` lies where the same element of a dense `other` does.
bool LiesAs(const View& view, const View& other) {
  if (view.data != other.data || SizeOf(view.dtype) != SizeOf(other.dtype)) return false;
  int64_t dense = 1;
  for (int d = view.rank - 1; d >= 0; --d) {
    if (view.dims[d] != 1 && view.strides[d] != dense) return false;
    dense *= view.dims[d];
  }
  return dense == other.numel();
}

}  // namespace

bool CanJoin(const KernelArgs& first, const KernelArgs& second, Memory second_scratch) {
  const View &between = first.out(0), &result = second.out(0);
  if (between.numel() != result.numel()) return false;
  for (const View& in : second.inputs) {
    if (!in.present()) continue;
    if (Overlap(MemoryOf(in), MemoryOf(between)) && !LiesAs(in, between)) return false;
  }
  for (const View& in : first.inputs) {
    if (!in.present()) continue;
    const Memory read = MemoryOf(in);
    if (Overlap(read, second_scratch)) return false;
    if (Overlap(read, MemoryOf(result)) && !LiesAs(in, result)) return false;
  }
  return true;
}

bool CanPass(const KernelArgs& first, const KernelArgs& second) {
  const Memory between = MemoryOf(first.out(0));
  return !Overlap(between, MemoryOf(second.out(0))) &&
         std::ranges::none_of(first.inputs, [&](const View& in) {
           return in.present() && Overlap(MemoryOf(in), between);
         });
}

}  // namespace liveshape::cpu
