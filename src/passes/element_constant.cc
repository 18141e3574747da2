// Constant data that follows a formula.
#include <algorithm>
#include <cstring>

#include "passes/element.h"

namespace liveshape::passes {
namespace {

// Checking every element of a larger table costs more than its mask could save.
constexpr size_t kMostElements = size_t{1} << 24;

int64_t Read(const ir::Constant& c, size_t i) {
  auto read = [&](auto number) {
    std::memcpy(&number, c.data.data() + i * sizeof(number), sizeof(number));
    return static_cast<int64_t>(number);
  };
  switch (c.dtype) {
    case DType::kI64: return read(int64_t{});
    case DType::kI32: return read(int32_t{});
    case DType::kI16: return read(int16_t{});
    case DType::kI8: return read(int8_t{});
    case DType::kBool: return read(uint8_t{}) != 0;
    default: return read(uint8_t{});
  }
}

// data[i, j, ...] = base + i * step0 + j * step1 ...
std::optional<Expr> Affine(sym::Table& table, const ir::Constant& c, size_t numel,
                           const std::vector<Expr>& at) {
  const size_t rank = c.dims.size();
  const int64_t base = Read(c, 0);
  std::vector<int64_t> step(rank, 0);
  size_t stride = 1;
  Expr e = table.Int(base);
  for (size_t d = rank; d-- > 0; stride *= static_cast<size_t>(c.dims[d])) {
    if (c.dims[d] > 1 && __builtin_sub_overflow(Read(c, stride), base, &step[d]))
      return std::nullopt;
    e = e + at[d] * step[d];
  }
  std::vector<int64_t> index(rank, 0);
  int64_t expected = base;
  for (size_t i = 0; i < numel; ++i) {
    if (Read(c, i) != expected) return std::nullopt;
    for (size_t d = rank; d-- > 0;) {
      int64_t span = 0;
      if (++index[d] < c.dims[d]) {
        if (__builtin_add_overflow(expected, step[d], &expected)) return std::nullopt;
        break;
      }
      if (__builtin_mul_overflow(step[d], c.dims[d] - 1, &span) ||
          __builtin_sub_overflow(expected, span, &expected))
        return std::nullopt;
      index[d] = 0;
    }
  }
  return e;
}

// Row r of a bool matrix is true for its first a + r columns and false behind them.
std::optional<Expr> Prefix(sym::Table& table, const ir::Constant& c, size_t numel,
                           const std::vector<Expr>& at) {
  const size_t rank = c.dims.size();
  if (rank == 0) return std::nullopt;
  const int64_t columns = c.dims[rank - 1], rows = rank > 1 ? c.dims[rank - 2] : 1;
  if (rows * columns != static_cast<int64_t>(numel)) return std::nullopt;
  std::optional<int64_t> first;  // a
  std::vector<int64_t> seen;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t n = 0;
    while (n < columns && Read(c, static_cast<size_t>(r * columns + n))) ++n;
    for (int64_t k = n; k < columns; ++k)
      if (Read(c, static_cast<size_t>(r * columns + k))) return std::nullopt;
    seen.push_back(n);
    if (!first && n > 0) first = n - r;
  }
  if (!first) return std::nullopt;
  for (int64_t r = 0; r < rows; ++r)
    if (seen[static_cast<size_t>(r)] != std::clamp<int64_t>(*first + r, 0, columns))
      return std::nullopt;
  const Expr row = rank > 1 ? at[rank - 2] : table.Int(0);
  return sym::Lt(at[rank - 1], row + *first);
}

}  // namespace

std::optional<Expr> ConstantElement(sym::Table& table, const ir::Constant& c,
                                    const std::vector<Expr>& at) {
  size_t numel = 1;
  for (int64_t d : c.dims) numel *= static_cast<size_t>(d);
  const bool plain = !c.packed();
  if (!plain || numel == 0 || numel > kMostElements || c.data.size() != numel * SizeOf(c.dtype))
    return std::nullopt;
  if (std::optional<Expr> e = Affine(table, c, numel, at);
      e && (c.dtype != DType::kBool || e->is_int()))
    return e;
  if (c.dtype == DType::kBool) return Prefix(table, c, numel, at);
  return std::nullopt;
}

}  // namespace liveshape::passes
