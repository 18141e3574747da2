// One input channel a group: nothing to share between output channels, so taps are added straight from the
// image's rows, a few vectors of pixels at a time.
#include <cstring>
#include <type_traits>

#include "ops/conv/cpu_call.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/conv/cpu_depthwise.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/conv/columns-inl.h"
#include "ops/conv/depthwise-inl.h"
#include "ops/conv/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

constexpr int kMostVectors = 8;

struct Taps {
  const float* line;       // the first pixel's row
  const float* weight;     // [taps], 16 apart
  const int64_t* offsets;  // of each tap from `line`
  int64_t count;
  float bias;
};

// kWide vectors of pixels. One chain of multiply-adds a pixel, in the order of the taps; bias last.
template <int kWide>
HWY_INLINE void Pixels(const Taps& taps, int64_t at, float* to) {
  const Lane d;
  hn::Vec<Lane> sum[kWide];
  HWY_UNROLL(8)
  for (int v = 0; v < kWide; ++v) sum[v] = hn::Zero(d);
  for (int64_t t = 0; t < taps.count; ++t) {
    const auto w = hn::Set(d, taps.weight[t * 16]);
    const float* from = taps.line + taps.offsets[t] + at;
    HWY_UNROLL(8)
    for (int v = 0; v < kWide; ++v)
      sum[v] = hn::MulAdd(w, hn::LoadU(d, from + v * kPixelLanes), sum[v]);
  }
  HWY_UNROLL(8)
  for (int v = 0; v < kWide; ++v)
    hn::StoreU(hn::Add(sum[v], hn::Set(d, taps.bias)), d, to + v * kPixelLanes);
}

// From rows in place. Null: the image has to be laid out.
using DenseFn = void (*)(const ConvCall& call, const DepthwiseTask& task, const float* plane,
                         const float* weight, float bias, const float* limit, float* to);
DenseFn FindDense([[maybe_unused]] const ConvCall& call) {
#if HWY_TARGET != HWY_SCALAR
  const ops::Window &h = call.h, &w = call.w;
  if (h.size != w.size || h.stride != w.stride || h.dilation != 1 || w.dilation != 1 ||
      call.x_strides[3] != 1)
    return nullptr;
  switch (w.stride * 10 + w.size) {
    case 13: return DownPlane<3, 1>;
    case 15: return DownPlane<5, 1>;
    case 17: return DownPlane<7, 1>;
    case 23: return DownPlane<3, 2>;
    case 25: return DownPlane<5, 2>;
    case 27: return DownPlane<7, 2>;
    default: break;
  }
#endif
  return nullptr;
}

template <typename T>
HWY_INLINE const T* PlaneOf(const ConvCall& call, const DepthwiseTask& task) {
  return reinterpret_cast<const T*>(call.x) + task.image * call.x_strides[0] +
         task.channel * call.x_strides[1];
}
HWY_INLINE const float* WeightOf(const ConvCall& call, const DepthwiseTask& task) {
  return call.panels + task.row / 16 * call.depth() * 16 + task.row % 16;
}
template <typename T>
HWY_INLINE float BiasOf(const ConvCall& call, const DepthwiseTask& task) {
  if (call.bias == nullptr) return 0;
  return ToFloat(reinterpret_cast<const T*>(call.bias)[task.row * call.bias_stride]);
}
template <typename T>
HWY_INLINE T* OutputOf(const ConvCall& call, const DepthwiseTask& task) {
  const int64_t rows = (task.image * call.rows + task.row) * call.out_height + task.begin;
  return reinterpret_cast<T*>(call.y) + rows * call.out_width;
}

// dense: of FindDense. limit: where this worker's tasks end; what lies before, it stores later.
template <typename T>
HWY_INLINE void DepthwiseTyped(const ConvCall& call, DenseFn dense, const DepthwiseTask& task,
                               [[maybe_unused]] const T* limit) {
  const int64_t width = call.out_width;
  const T* const plane = PlaneOf<T>(call, task);
  const float* const weight = WeightOf(call, task);
  const float bias = BiasOf<T>(call, task);
  T* to = OutputOf<T>(call, task);
  if constexpr (std::is_same_v<T, float>) {
    if (dense != nullptr) return dense(call, task, plane, weight, bias, limit, to);
  }
  int64_t* const offsets = reinterpret_cast<int64_t*>(task.scratch);
  float* const lines = task.scratch + 2 * call.taps();
  Taps taps = {
      .line = lines, .weight = weight, .offsets = offsets, .count = call.taps(), .bias = bias};
  const int64_t line = ImageLine(call.w, width);
  for (int64_t t = 0; t < call.taps(); ++t)
    offsets[t] = TapOffset(call, width, t / call.w.size, t % call.w.size);
  LayOut(call, plane, task.begin, task.end, 0, width, lines);
  for (int64_t i = 0; i < task.end - task.begin; ++i, to += width) {
    taps.line = lines + i * call.h.stride * line;
    const int64_t vectors = (width + kPixelLanes - 1) / kPixelLanes;
    const int64_t tiles = (vectors + kMostVectors - 1) / kMostVectors;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t begin = vectors * t / tiles, wide = vectors * (t + 1) / tiles - begin;
      const int64_t at = begin * kPixelLanes;
      const bool direct = std::is_same_v<T, float> && at + wide * kPixelLanes <= width;
      HWY_ALIGN float edge[kMostVectors * kPixelLanes];
      float* const sums = direct ? reinterpret_cast<float*>(to) + at : edge;
      switch (wide) {
        case 1: Pixels<1>(taps, at, sums); break;
        case 2: Pixels<2>(taps, at, sums); break;
        case 3: Pixels<3>(taps, at, sums); break;
        case 4: Pixels<4>(taps, at, sums); break;
        case 5: Pixels<5>(taps, at, sums); break;
        case 6: Pixels<6>(taps, at, sums); break;
        case 7: Pixels<7>(taps, at, sums); break;
        default: Pixels<8>(taps, at, sums); break;
      }
      const int64_t live = width - at < wide * kPixelLanes ? width - at : wide * kPixelLanes;
      if (!direct) NarrowRow(edge, live, to + at);
    }
  }
}

// f(task) for tasks [begin, end). Planes may be tiny: divisions come before the loop.
template <typename F>
HWY_INLINE void ForTasks(const ConvCall& call, int64_t blocks, int64_t begin, int64_t end,
                         float* scratch, F&& f) {
  const int64_t first = begin / blocks, group_rows = call.group_rows(), height = call.out_height;
  int64_t image = first / call.rows, row = first % call.rows, block = begin % blocks;
  int64_t channel = row / group_rows, turn = row % group_rows;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t top = blocks == 1 ? 0 : height * block / blocks;
    const int64_t bottom = blocks == 1 ? height : height * (block + 1) / blocks;
    f(DepthwiseTask{image, channel, row, top, bottom, scratch});
    if (++block < blocks) continue;
    block = 0;
    if (++turn == group_rows) turn = 0, ++channel;
    if (++row == call.rows) row = channel = 0, ++image;
  }
}

template <typename T>
void DepthwiseTasks(const ConvCall& call, int64_t blocks, int64_t begin, int64_t end,
                    float* scratch) {
  const DenseFn dense = FindDense(call);
  const int64_t height = call.out_height;
  const int64_t limit_row = end / blocks * height + height * (end % blocks) / blocks;
  const T* const limit = reinterpret_cast<const T*>(call.y) + limit_row * call.out_width;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<T, float>) {
    // In one function, and what planes share before the loop: to begin anew for each took longer than its rows.
    const auto narrow = [&](auto d) HWY_ATTR {
      const RowsSeen whole(call, 0, height);
      const int64_t width = call.out_width, step = call.x_strides[2];
      ForTasks(call, blocks, begin, end, scratch, [&](const DepthwiseTask& task) HWY_ATTR {
        const RowsSeen seen = blocks == 1 ? whole : RowsSeen(call, task.begin, task.end);
        const float* const from = PlaneOf<T>(call, task) + seen.first * step;
        const float* const weight = WeightOf(call, task);
        const float bias = BiasOf<T>(call, task);
        float* const to = OutputOf<T>(call, task);
        if (to + (task.end - task.begin) * width + static_cast<int64_t>(hn::Lanes(d)) <= limit)
          NarrowPlane3x3<true>(d, seen, width, from, step, weight, bias, limit, to);
        else
          NarrowPlane3x3<false>(d, seen, width, from, step, weight, bias, limit, to);
      });
    };
    // Half a vector is half the work where AVX-512 takes two turns.
    const hn::CappedTag<float, 8> half;
    const bool lanes_are_columns = call.w.before == 1 && call.out_width == call.width;
    if (dense == DownPlane<3, 1> && lanes_are_columns && call.out_width < kPixelLanes) {
      if (call.out_width < static_cast<int64_t>(hn::Lanes(half))) return narrow(half);
      return narrow(Lane());
    }
  }
#endif
  ForTasks(call, blocks, begin, end, scratch, [&](const DepthwiseTask& task) HWY_ATTR {
    DepthwiseTyped<T>(call, dense, task, limit);
  });
}

void Depthwise(const ConvCall& call, int64_t blocks, int64_t begin, int64_t end, float* scratch) {
  WithElement(call.dtype, [&](auto type) HWY_ATTR {
    DepthwiseTasks<std::remove_const_t<std::remove_pointer_t<decltype(type)>>>(call, blocks, begin,
                                                                               end, scratch);
  });
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(Depthwise);
}  // namespace

DepthwiseFn FindDepthwise() { return LS_SIMD(Depthwise); }

}  // namespace liveshape::cpu
#endif
