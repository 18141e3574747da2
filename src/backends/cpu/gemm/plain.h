// Products of the dtypes that no model spends time in: i64 and the other integers (which wrap, as torch's
// do), f64. A row of C at a time, any strides.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cpu/gemm/task.h"
#include "base/status.h"

namespace liveshape::cpu {

namespace plain_internal {

template <typename T>
void Rows(const GemmCall& call, const std::byte* a_data, const std::byte* b_data, std::byte* c_data,
          int64_t row_begin, int64_t row_end) {
  // Unsigned arithmetic wraps without being undefined; the bits are the same.
  using U = typename std::conditional_t<
      std::is_integral_v<T>, std::make_unsigned<std::conditional_t<std::is_integral_v<T>, T, int>>,
      std::type_identity<T>>::type;
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, U>;
  const U* b = reinterpret_cast<const U*>(b_data);
  const U* bias = reinterpret_cast<const U*>(call.bias);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const U* a = reinterpret_cast<const U*>(RowAddress(call.a, a_data, row));
    U* c = reinterpret_cast<U*>(c_data) + row * call.n;
    for (int64_t n = 0; n < call.n; ++n) {
      Sum sum = 0;
      for (int64_t k = 0; k < call.k; ++k) {
        const int64_t at = call.b.panels ? (n / 16 * call.k + k) * 16 + n % 16
                                         : k * call.b.k_stride + n * call.b.n_stride;
        sum += static_cast<Sum>(a[k * call.a.k_stride]) * static_cast<Sum>(b[at]);
      }
      if (bias != nullptr) sum += static_cast<Sum>(bias[n * call.bias_stride]);
      c[n] = static_cast<U>(sum);
    }
  }
}

}  // namespace plain_internal

constexpr bool HasFastGemm(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}
constexpr bool HasPlainGemm(DType dtype) { return IsInteger(dtype) || dtype == DType::kF64; }

// All operands of one dtype, which HasPlainGemm.
inline void PlainGemm(const GemmCall& call, ThreadPool& pool) {
  const auto rows = [&](auto type) {
    using T = decltype(type);
    int64_t batch = 1;
    for (int i = 0; i < call.batch_rank; ++i) batch *= call.batch_dims[i];
    pool.ParallelFor(batch * call.m, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t index = row / call.m;
        constexpr int64_t kSize = sizeof(T);
        plain_internal::Rows<T>(
            call, call.a.data + BatchOffset(call, call.a_batch_strides, index) * kSize,
            call.b.data + BatchOffset(call, call.b_batch_strides, index) * kSize,
            call.c + index * call.m * call.n * kSize, row % call.m, row % call.m + 1);
      }
    });
  };
  switch (call.c_dtype) {
    case DType::kF64: return rows(double{});
    case DType::kI64: return rows(int64_t{});
    case DType::kI32: return rows(int32_t{});
    case DType::kI16: return rows(int16_t{});
    case DType::kI8: return rows(int8_t{});
    case DType::kU8: return rows(uint8_t{});
    default: LS_CHECK(false);
  }
}

}  // namespace liveshape::cpu
