// Decode: few rows, so K and V are streamed once, where they lie, and the keys are split over threads.
#include <cmath>

#include "ops/attention/cpu_block.h"
#include "ops/attention/cpu_call.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/cpu_decode.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backends/cpu/gemm/micro-inl.h"
#include "ops/attention/softmax-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// scores[r][n] = q[r] . k[n] for kRows rows and kKeys keys. 4 x 2 sums in registers.
template <int kRows, int kKeys, typename T>
HWY_INLINE void Dots(const float* q, const T* k, int64_t key_stride, int64_t depth, float* scores,
                     int64_t score_stride) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  using V = hn::Vec<RowTag>;
  V sum[kRows][kKeys];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int n = 0; n < kKeys; ++n) sum[r][n] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + kStep <= depth; i += kStep) {
    V key[kKeys];
    HWY_UNROLL(8)
    for (int n = 0; n < kKeys; ++n) key[n] = LoadAsFloat(d, k + n * key_stride + i);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const V query = hn::LoadU(d, q + r * depth + i);
      HWY_UNROLL(8)
      for (int n = 0; n < kKeys; ++n) sum[r][n] = hn::MulAdd(query, key[n], sum[r][n]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int n = 0; n < kKeys; ++n) {
      float dot = hn::GetLane(hn::SumOfLanes(d, sum[r][n]));
      for (int64_t j = i; j < depth; ++j) dot += q[r * depth + j] * ToFloat(k[n * key_stride + j]);
      scores[r * score_stride + n] = dot;
    }
  }
}

// Bytes to fetch for each key while scores are computed.
struct Ahead {
  const std::byte* data;
  int64_t stride, bytes;

  HWY_INLINE void Fetch(int64_t row) const {
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(data + row * stride + b, 0, 2);
  }
};

// K is fetched a group of keys ahead; V, which the weighted sum will walk in columns, row by row with K.
// Decode at 8192, 16/8 heads of 128, one Zen 4 core: 6.6 ms without, 6.0 with V, 5.0 with both.
template <int kRows, typename T>
void DotsOfRows(const float* q, const T* k, int64_t key_stride, int64_t depth, int64_t keys,
                float* scores, int64_t score_stride, const Ahead& values) {
  constexpr int kKeys = 8 / kRows;
  constexpr int64_t kSize = sizeof(T);
  const Ahead next_keys = {reinterpret_cast<const std::byte*>(k + kKeys * key_stride),
                           key_stride * kSize, depth * kSize};
  int64_t n = 0;
  for (; n + kKeys <= keys; n += kKeys) {
    for (int64_t i = n; i < n + kKeys; ++i) {
      next_keys.Fetch(i);
      values.Fetch(i);
    }
    Dots<kRows, kKeys>(q, k + n * key_stride, key_stride, depth, scores + n, score_stride);
  }
  for (; n < keys; ++n) {
    Dots<kRows, 1>(q, k + n * key_stride, key_stride, depth, scores + n, score_stride);
  }
}

// Rows [0, rows) of one (batch, group) against keys [begin, end): to `partial`, one record a row.
template <typename T>
void Chunk(const AttentionCall& call, int64_t batch, int64_t group, int64_t begin, int64_t end,
           float* scratch, float* partial) {
  const int64_t rows = call.rows(), depth = call.depth(), width = call.width();
  const ChunkScratch layout(rows, call.keys(), depth);
  float* const queries = scratch;
  float* const scores = queries + layout.queries;
  float* const value_panel = scores + layout.scores;
  const int64_t stride = layout.scores / rows, record = PartialFloats(width);

  int64_t visible[kDecodeRows];
  int64_t keys = 0;
  bool hidden = call.mask != nullptr;
  for (int64_t r = 0; r < rows; ++r) {
    const AttentionRow row(call, batch, group, r);
    const int64_t in_chunk = std::clamp<int64_t>(row.Visible(call) - begin, 0, end - begin);
    WithMask<T>(call, row, begin, in_chunk,
                [&](const auto& mask) HWY_ATTR { visible[r] = mask.Seen(in_chunk); });
    keys = std::max(keys, visible[r]);
    partial[r * record] = kMinusInf;
    partial[r * record + 1] = 0;
    for (int64_t e = 16; e < record; ++e) partial[r * record + e] = 0;
  }
  if (keys == 0) return;

  const View &q = *call.q, &k = *call.k, &v = *call.v;
  for (int64_t r = 0; r < rows; ++r) {
    hidden |= visible[r] != keys;
    const T* from = q.as<const T>() + AttentionRow(call, batch, group, r).Offset(q);
    for (int64_t i = 0; i < depth; ++i)
      queries[r * depth + i] = ToFloat(from[i * q.strides[3]]) * call.scale;
  }
  const T* key =
      k.as<const T>() + batch * k.strides[0] + group * k.strides[1] + begin * k.strides[2];
  const T* value =
      v.as<const T>() + batch * v.strides[0] + group * v.strides[1] + begin * v.strides[2];
  constexpr int64_t kSize = sizeof(T);
  Ahead values = {reinterpret_cast<const std::byte*>(value), v.strides[2] * kSize, width * kSize};
  for (int64_t r = 0; r < rows; values.bytes = 0) {
    const float* from = queries + r * depth;
    float* to = scores + r * stride;
    if (rows - r >= 4) {
      DotsOfRows<4>(from, key, k.strides[2], depth, keys, to, stride, values), r += 4;
    } else if (rows - r >= 2) {
      DotsOfRows<2>(from, key, k.strides[2], depth, keys, to, stride, values), r += 2;
    } else {
      DotsOfRows<1>(from, key, k.strides[2], depth, keys, to, stride, values), r += 1;
    }
  }

  const float* weights[kDecodeRows];
  for (int64_t r = 0; r < rows; ++r) {
    weights[r] = scores + r * stride;
    if (visible[r] == 0) {
      for (int64_t n = 0; n < RoundUp16(keys); ++n) scores[r * stride + n] = 0;
      continue;
    }
    float* const row = scores + r * stride;
    float& maximum = partial[r * record];
    WithMask<T>(call, AttentionRow(call, batch, group, r), begin, visible[r],
                [&](const auto& mask)
                    HWY_ATTR { maximum = MaskedMaximum(row, visible[r], mask, kMinusInf); });
    partial[r * record + 1] = Weigh(row, visible[r], RoundUp16(keys), maximum);
  }

  const RowTiles tiles(rows);
  // One panel alone is a chain of multiply-adds that each wait for the last: as many side by side as there are registers
  // for, or half of them (a row of 64 columns with AVX-512, which took 1.4 times as long by panels on Zen 5).
  const auto columns_at_once = [&](int64_t height, int64_t left) {
    const int64_t wide = WidePanels(static_cast<int>(height)) * 16;
    return wide <= left || wide == 16 ? wide : wide / 2;
  };
  for (int64_t e = 0; e < width;) {
    const int64_t wide = columns_at_once(tiles.MaxHeight(), width - e);
    const bool is_wide = e + wide <= width && !hidden && wide > 16;
    const int64_t columns = is_wide ? wide : std::min<int64_t>(16, width - e);
    MicroArgs args = {};
    args.k = keys;
    args.ldc = record;
    args.b = value + e;
    args.b_row = v.strides[2];
    args.b_panel = 16;
    args.next = value;
    bool in_place = columns >= 16, finite = true;
    if (hidden || !in_place) {
      PackPanel(value + e, v.strides[2], 1, keys, columns, value_panel);
      args.b = value_panel;
      in_place = false;
      finite = !hidden || AllFinite(value_panel, keys * 16);
    }
    if (!finite) {  // a hidden value may be NaN or infinite: 0 * v would show it
      for (int64_t r = 0; r < rows; ++r) {
        float* to = partial + r * record + 16 + e;
        WithMask<T>(call, AttentionRow(call, batch, group, r), begin, visible[r],
                    [&](const auto& mask) HWY_ATTR {
                      AddVisibleValues(value_panel, weights[r], mask, visible[r], to);
                    });
      }
      e += columns;
      continue;
    }
    for (int64_t t = 0; t < tiles.count; ++t) {
      args.rows = weights + tiles.Begin(t);
      args.c = partial + tiles.Begin(t) * record + 16 + e;
      const int64_t at = tiles.Height(t) - 1;
      const int64_t tile_wide = columns_at_once(at + 1, columns);
      if (!in_place) {
        kRowsMicro<float, false, false>[at](args);
      } else if (is_wide && tile_wide == wide) {
        const bool half = wide < WidePanels(static_cast<int>(at + 1)) * 16;
        (half ? kRowsHalfMicro<T, true>[at] : kRowsMicro<T, true, true>[at])(args);
      } else {
        for (int64_t p = 0; p < columns; p += 16) {
          MicroArgs one = args;
          one.b = value + e + p;
          one.c = args.c + p;
          kRowsMicro<T, true, false>[at](one);
        }
      }
    }
    e += columns;
  }
}

// Merges the chunks of one row, in order.
template <typename T>
void Merge(const AttentionCall& call, int64_t batch, int64_t group, int64_t r, int64_t chunks,
           float* partials, int64_t chunk_stride, float* spare) {
  const int64_t width = call.width(), padded = RoundUp16(width);
  T* to = call.out->as<T>() + AttentionRow(call, batch, group, r).OutOffset(call);
  float maximum = kMinusInf;
  for (int64_t c = 0; c < chunks; ++c) {
    const float m = partials[c * chunk_stride];
    maximum = m > maximum ? m : maximum;
  }
  float* const sums = partials + 16;  // chunk 0's
  float total = 0;
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  for (int64_t c = 0; c < chunks; ++c) {
    const float* chunk = partials + c * chunk_stride;
    const float factor = ShrinkFactor(chunk[0], maximum);
    total += factor * chunk[1];
    const auto by = hn::Set(d, factor);
    for (int64_t e = 0; e < padded; e += kStep) {
      const auto scaled = hn::Mul(by, hn::LoadU(d, chunk + 16 + e));
      hn::StoreU(c == 0 ? scaled : hn::Add(hn::LoadU(d, sums + e), scaled), d, sums + e);
    }
  }
  if (maximum != kMinusInf || total != 0) return FinishRow(sums, total, width, to);
  if (call.all_masked == AllMasked::kZero || call.keys() == 0) return FillRow(0.0f, width, to);
  if (call.all_masked == AllMasked::kNan) return FillRow(std::nanf(""), width, to);
  MeanOfValues<T>(call, batch, group, sums, spare);
  NarrowRow(sums, width, to);
}

void AttentionChunk(const AttentionCall& call, int64_t batch, int64_t group, int64_t begin,
                    int64_t end, float* scratch, float* partial) {
  switch (call.q->dtype) {
    case DType::kF16: return Chunk<Half>(call, batch, group, begin, end, scratch, partial);
    case DType::kBF16: return Chunk<BFloat>(call, batch, group, begin, end, scratch, partial);
    default: return Chunk<float>(call, batch, group, begin, end, scratch, partial);
  }
}

void AttentionMerge(const AttentionCall& call, int64_t batch, int64_t group, int64_t row,
                    int64_t chunks, float* partials, int64_t chunk_stride, float* spare) {
  switch (call.q->dtype) {
    case DType::kF16:
      return Merge<Half>(call, batch, group, row, chunks, partials, chunk_stride, spare);
    case DType::kBF16:
      return Merge<BFloat>(call, batch, group, row, chunks, partials, chunk_stride, spare);
    default: return Merge<float>(call, batch, group, row, chunks, partials, chunk_stride, spare);
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {

LS_SIMD_TABLE(AttentionChunk);
LS_SIMD_TABLE(AttentionMerge);

}  // namespace

bool FitsDecode(const AttentionCall& call) {
  return call.rows() <= kDecodeRows && call.k->strides[3] == 1 && call.v->strides[3] == 1;
}

void DecodeAttention(const AttentionCall& call, ThreadPool& pool, std::byte* scratch) {
  const int64_t rows = call.rows(), outer = call.batch() * call.groups();
  if (rows == 0 || outer == 0) return;
  // Chunks of the keys that any row sees: the capacity of the cache does not count.
  int64_t seen = 0;
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      seen =
          std::max(seen, AttentionRow(call, i / call.groups(), i % call.groups(), r).Visible(call));
    }
  }
  const int64_t chunks = std::max<int64_t>(1, (seen + kDecodeKeys - 1) / kDecodeKeys);
  const int64_t worker_floats = ChunkScratch(rows, call.keys(), call.depth()).total();
  float* const floats = reinterpret_cast<float*>(scratch);
  float* const partials = floats + pool.size() * worker_floats;
  const int64_t record = PartialFloats(call.width());
  const auto chunk = LS_SIMD(AttentionChunk);
  const auto merge = LS_SIMD(AttentionMerge);
  const int64_t grain = AttentionGrain(call, rows, std::min(seen, kDecodeKeys));
  // [outer][chunks][rows] records, then one spare.
  pool.ParallelFor(outer * chunks, grain, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t key = i % chunks * kDecodeKeys, group = i / chunks;
      chunk(call, group / call.groups(), group % call.groups(), key,
            std::min(seen, key + kDecodeKeys), floats + worker * worker_floats,
            partials + i * rows * record);
    }
  });
  for (int64_t i = 0; i < outer * rows; ++i) {
    const int64_t group = i / rows, row = i % rows;
    merge(call, group / call.groups(), group % call.groups(), row, chunks,
          partials + (group * chunks * rows + row) * record, rows * record,
          partials + outer * chunks * rows * record);
  }
}

}  // namespace liveshape::cpu
#endif
