// Arithmetic for scratch sizes. Such a size is one formula with two readers: the kernel computes it from live numbers
// to lay its scratch out, the planner makes it an expression over the symbols, so that the slot's maximum, the live
// size and `liveshape cost` all come from it.
//
//   template <typename Int>                        // int64_t, or sym::Expr
//   Int PackedFloats(Int rows, Int depth) { return AtMost(rows, 96) * RoundUp16(depth); }
//
// The planner's capacity is the maximum over the symbol ranges, found by interval arithmetic: a formula that grows with
// each of its arguments loses nothing by it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sym/expr.h"

namespace liveshape::cpu {

inline int64_t AtMost(int64_t x, int64_t most) { return std::min(x, most); }
inline sym::Expr AtMost(sym::Expr x, sym::Expr most) { return sym::Min(x, most); }
inline sym::Expr AtMost(sym::Expr x, int64_t most) { return sym::Min(x, x.table().Int(most)); }

inline int64_t Larger(int64_t a, int64_t b) { return std::max(a, b); }
inline sym::Expr Larger(sym::Expr a, sym::Expr b) { return sym::Max(a, b); }

inline int64_t DivideDown(int64_t x, int64_t by) { return x / by; }
inline sym::Expr DivideDown(sym::Expr x, int64_t by) { return sym::FloorDiv(x, x.table().Int(by)); }

inline int64_t DivideUp(int64_t x, int64_t by) { return (x + by - 1) / by; }
inline sym::Expr DivideUp(sym::Expr x, int64_t by) { return sym::CeilDiv(x, x.table().Int(by)); }

template <typename Int>
Int RoundUp16(Int x) {
  return DivideUp(x, 16) * 16;
}

}  // namespace liveshape::cpu
