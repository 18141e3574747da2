// The canonical ops: what every importer lowers to and every backend implements. The folder of each
// holds its definition; the comment here is its contract (inputs, then attributes).
//
// Conventions: dims and axes in attributes are non-negative and in range; broadcasting is explicit
// (`expand`), so inputs that must match have equal dims; dtypes are already promoted (`cast` inside a
// pointwise program). Sizes are `Exprs`. An index out of range is an error of the run.
#pragma once

#include <span>

#include "ir/op.h"

namespace liveshape::ops {

// (inputs...) program, dims: Exprs. Every input has dims `dims`. See ir/pointwise.h.
extern const ir::OpDef kPointwise;

// Views: no work where strides can say it, else the planner makes a copy.
extern const ir::OpDef kReshape;  // (x) sizes: Exprs, numel preserved
extern const ir::OpDef kPermute;  // (x) perm: Ints
extern const ir::OpDef kSlice;  // (x) dim: Int, start: Exprs[1], length: Exprs[1], step: Int (> 0)
extern const ir::OpDef
    kExpand;  // (x) sizes: Exprs; a dim that is at most 1 is repeated, new dims lead

extern const ir::OpDef kCopy;  // (x) the same values, row-major and dense

// (x [..., K], w [N, K], bias [N]?) -> [..., N]: x @ w.T + bias
extern const ir::OpDef kLinear;
// (a [B..., M, K], b [B..., K, N]) -> [B..., M, N]
extern const ir::OpDef kMatmul;

// Convolutions and pools slide windows over [N, C, H, W]; 1-D has H = 1. Their attributes (ops/window.h):
// kernel, stride, dilation: Ints [along H, along W]; padding: Ints [top, bottom, left, right].
//
// (x [N, C, H, W], w [O, C/groups * KH * KW], bias [O]?) window, groups: Int -> [N, O, H', W']
// y[n, o, i, j] = bias[o] + the sum over c, p, q of w[o, (c * KH + p) * KW + q] *
//   x[n, o / (O/groups) * C/groups + c, i * stride - top + p * dilation, j * stride - left + q * dilation],
// where x is 0 outside. C and O are fixed; the weight is a matrix, so that it is packed as a linear's is
extern const ir::OpDef kConv;
// (x [N, C, H, W]) window, kind: String "max" or "mean", ceil, count_padding: Int, divisor: Int
// Only elements of x take part. A mean divides by `divisor`, or if that is 0 by the window's elements, with
// count_padding those in the padding too. A window of NaN is NaN. ceil: places that end outside count
extern const ir::OpDef kPool;
// (x [N, C, H, W]) sizes: Exprs[2]. Output i of a dim is the mean of [floor(i*n/m), ceil((i+1)*n/m))
extern const ir::OpDef kAdaptiveMean;
// (x) before, after: Exprs, one a dim, negative cuts off; mode: String "constant" (`value`: Float), "reflect"
// (without the edge), "replicate" or "circular"
extern const ir::OpDef kPad;

// (x) dim: Int, all_masked: String: what a row of only -inf gives: "nan" as torch.softmax, or "zero"
extern const ir::OpDef kSoftmax;
// (x [..., D], weight [D]?) eps: Float. x * rsqrt(mean(x^2) + eps), rounded to x's dtype, times weight
extern const ir::OpDef kRmsNorm;
// (x [..., D], weight [D]?, bias [D]?) eps: Float
extern const ir::OpDef kLayerNorm;

// (x) kind: String in sum, mean, prod, max, min, any, all; dims: Ints ascending; keepdim: Int
// sum and prod of integers or bool give i64; any and all give bool
extern const ir::OpDef kReduce;
// (x) kind: String max or min; dim: Int; keepdim: Int -> i64: where along `dim` the extreme is, the first
// of equals; a NaN is both. A dim of size 0 is refused at bind, as by reduce's max and min
extern const ir::OpDef kArgmax;
// (x) dim: Int; descending: Int; count: Exprs[1] -> the first `count` along `dim` in order, and their indices
// (i64). Stable; NaN is the greatest value, -0 equals 0. sort takes all, topk a few
extern const ir::OpDef kSort;
extern const ir::OpDef kCumsum;  // (x) dim: Int; integers and bool give i64

// (q [B,H,S,D], k [B,G,T,D], v [B,G,T,E], mask [B,H,S,T]?, row_limits i64 [B,H,S]?) -> [B,H,S,E]
//   scale: Float; limit: Exprs[1]?; all_masked: String "zero", "mean" or "nan"
// H is a multiple of G (grouped queries). Row i sees the first n keys: n = T, or with `limit`
// min(T, max(0, limit + i)), or with row_limits min(T, max(0, row_limits[b,h,i])); of these, a bool mask
// keeps where true, a float mask is added to the scaled score. A row that sees no key (also: every
// visible score is -inf) gives zeros, NaN, or the mean of v over all T keys.
extern const ir::OpDef kAttention;

// (x [..., D], cos, sin) all of x's dims; x * cos + rotate_half(x) * sin,
// rotate_half(x) = cat(-x[D/2:], x[:D/2]) on the last dim
extern const ir::OpDef kRope;

// (weight [V, D], ids i64|i32 [...]) -> [..., D]
extern const ir::OpDef kEmbedding;
// (x, index...) axes: Ints ascending, one an index. All indices i64|i32 with equal dims I.
// Axes adjacent: I replaces them in place; else I leads, as torch does. Negative indices wrap.
extern const ir::OpDef kIndex;
// (base, values, index...) axes, accumulate: Int. values has the dims that kIndex would give
extern const ir::OpDef kIndexPut;
// (base, source) sizes, strides: Exprs, offset: Exprs[1]. Writes source [sizes] to that strided place
// of the row-major base: slice_scatter, select_scatter, and writes through any view
extern const ir::OpDef kViewWrite;

extern const ir::OpDef kCat;  // (x...) dim: Int

// Sizes born from data. An `item` gives a symbol its value when the run reaches it; ops that make tensors
// of such a size are told it (`count`) and fail the run where the data says otherwise.
extern const ir::OpDef kItem;  // (x [] of an integer dtype or bool) symbol: Int; no output
extern const ir::OpDef
    kNonzero;  // (x [...R dims]) count: Exprs[1] -> i64 [count, R], row-major order
extern const ir::OpDef
    kRepeatIndex;  // (repeats i64|i32 [N]) count: Exprs[1] -> i64 [count]: i, repeats[i] times

// All of them: one line an op. Lookup by name for the artifact loader.
std::span<const ir::OpDef* const> All();
const ir::OpDef* Find(std::string_view name);

}  // namespace liveshape::ops
