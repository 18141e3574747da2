// Chains over rows that end anywhere in a block: every kind of operand, and no byte beyond a row is written. Operands
// end where their memory does, so that sanitizers see a read beyond it.
#include "ops/pointwise/cpu_chain.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/half.h"

namespace liveshape::cpu::pw {
namespace {

constexpr int64_t kRows = 3;

// Rows of n elements, `gap` more than that apart.
template <typename T>
struct Strided {
  Strided(int64_t n, int64_t gap, T fill)
      : stride(n + gap), elements((kRows - 1) * stride + n, fill) {}
  T& at(int64_t row, int64_t i) { return elements[row * stride + i]; }
  int64_t step() const { return stride * static_cast<int64_t>(sizeof(T)); }

  int64_t stride;
  std::vector<T> elements;
};

void TestRowsOfAnyLength(uint8_t from) {
  constexpr float kUntouched = -77;
  constexpr uint8_t kNoFlag = 9;
  constexpr uint16_t kNoHalf = 0x4242;
  constexpr float zero = 0;
  for (Isa isa : AvailableIsas()) {
    const ChainRunner chain = FindChain(isa);
    for (int64_t n = 1; n <= 280; ++n) {  // two blocks of the widest vectors and more
      Strided<float> x(n, 3, 0), sum(n, 5, kUntouched);
      Strided<uint8_t> positive(n, 1, kNoFlag);
      Strided<uint16_t> chosen(n, 2, kNoHalf);
      std::vector<uint16_t> addend(n);  // of every row
      const float factor[kRows] = {1, -2, 3};
      // Small integers: exact in bf16 too, in any order of rounding.
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t i = 0; i < n; ++i) x.at(r, i) = static_cast<float>((r + 37 * i) % 64 - 31);
      for (int64_t i = 0; i < n; ++i) addend[i] = F16FromF32(static_cast<float>(i % 23 - 11));
      ChainOp ops[] = {
          {ChainCode::kLoad, from, x.elements.data(), nullptr, x.step()},
          {ChainCode::kMul, kSplatA, factor, nullptr, sizeof(float)},
          {ChainCode::kAdd, static_cast<uint8_t>(from | kF16A), addend.data()},
          {ChainCode::kStore, from, sum.elements.data(), nullptr, sum.step()},
          {ChainCode::kGt, kSplatA, &zero},
          {ChainCode::kStoreBool, from, positive.elements.data(), nullptr, positive.step()},
          {ChainCode::kSelect, kSplatB, x.elements.data(), factor, x.step(), sizeof(float)},
          {ChainCode::kStoreBF16, from, chosen.elements.data(), nullptr, chosen.step()},
          {ChainCode::kEnd}};
      for (size_t i = 0; i < std::size(ops); ++i) chain.link(ops, i);
      chain.run(ops, n, kRows);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
          const float v = x.at(r, i) * factor[r] + F32FromF16(addend[i]);
          ASSERT_EQ(sum.at(r, i), v) << Name(isa) << " " << n << " at " << r << ", " << i;
          ASSERT_EQ(positive.at(r, i), v > 0) << Name(isa) << " " << n << " at " << r << ", " << i;
          ASSERT_EQ(F32FromBF16(chosen.at(r, i)), v > 0 ? x.at(r, i) : factor[r])
              << Name(isa) << " " << n << " at " << r << ", " << i;
        }
        if (r + 1 == kRows) break;
        for (int64_t i = n; i < sum.stride; ++i) ASSERT_EQ(sum.at(r, i), kUntouched);
        for (int64_t i = n; i < positive.stride; ++i) ASSERT_EQ(positive.at(r, i), kNoFlag);
        for (int64_t i = n; i < chosen.stride; ++i) ASSERT_EQ(chosen.at(r, i), kNoHalf);
      }
    }
  }
}

TEST(Chain, RowsOfAnyLength) { TestRowsOfAnyLength(kMemory); }
TEST(Chain, RowsOfAnyLengthFromAfar) { TestRowsOfAnyLength(kFromAfar); }

// Streamed or not, wherever in a line rows begin.
TEST(Chain, PastCaches) {
  constexpr int64_t kStride = 304;
  const float one = 1;
  for (Isa isa : AvailableIsas()) {
    const ChainRunner chain = FindChain(isa);
    for (int64_t n = 1; n <= 280; ++n) {
      for (int64_t first : {0, 1, 8}) {
        float x[kRows * kStride];
        alignas(64) float out[kRows * kStride] = {};
        for (int64_t i = 0; i < kRows * kStride; ++i) x[i] = static_cast<float>(i);
        const int64_t step = kStride * sizeof(float);
        ChainOp ops[] = {{ChainCode::kLoad, kMemory, x, nullptr, step},
                         {ChainCode::kAdd, kSplatA, &one},
                         {ChainCode::kStore, kPastCaches, out + first, nullptr, step},
                         {ChainCode::kEnd}};
        for (size_t i = 0; i < std::size(ops); ++i) chain.link(ops, i);
        chain.run(ops, n, kRows);
        for (int64_t i = 0; i < kRows * kStride; ++i) {
          const int64_t at = i - first;
          const bool written = at >= 0 && at % kStride < n;
          ASSERT_EQ(out[i], written ? x[at] + 1 : 0) << Name(isa) << " " << n << " at " << i;
        }
      }
    }
  }
}

// In place, as the planner may have it: a block reads before it writes.
TEST(Chain, InPlaceAtAnyLength) {
  const float two = 2;
  for (Isa isa : AvailableIsas()) {
    const ChainRunner chain = FindChain(isa);
    for (int64_t n = 1; n <= 280; ++n) {
      std::vector<float> x(kRows * n);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      const int64_t step = n * static_cast<int64_t>(sizeof(float));
      ChainOp ops[] = {{ChainCode::kLoad, kMemory, x.data(), nullptr, step},
                       {ChainCode::kMul, kSplatA, &two},
                       {ChainCode::kStore, kMemory, x.data(), nullptr, step},
                       {ChainCode::kEnd}};
      for (size_t i = 0; i < std::size(ops); ++i) chain.link(ops, i);
      chain.run(ops, n, kRows);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], 2 * static_cast<float>(i)) << n;
    }
  }
}

}  // namespace
}  // namespace liveshape::cpu::pw
