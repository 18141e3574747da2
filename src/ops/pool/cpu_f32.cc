#include "ops/pool/cpu_f32.h"

#include <algorithm>
#include <limits>

namespace liveshape::cpu {
namespace {

constexpr int64_t kSpan = 1024;  // of a run of windows that are made in two steps
constexpr int64_t kRowsAtOnce = 8;
// Up to 3 x 3 taps are taken where they lie; of more, the two steps that share rows are cheaper, though the second has to
// wait for the stores of the first.
constexpr int64_t kFewTaps = 9;

int64_t SpanOf(const ops::Window& w, int64_t pixels) {
  return (pixels - 1) * w.stride + (w.size - 1) * w.dilation + 1;
}

int64_t UpTo(int64_t distance, int64_t step) {
  return distance <= 0 ? 0 : (distance + step - 1) / step;
}

}  // namespace

bool PoolF32Serves(const PoolPrepared& pool, const Images& images) {
  return images.x.dtype == DType::kF32 && images.x.strides[3] == 1 &&
         SpanOf(pool.windows[1], kPoolRun) <= kSpan;
}

PoolF32::PoolF32(const PoolPrepared& pool, const Images& images)
    : pool_(pool),
      images_(images),
      h_(pool.windows[0]),
      w_(pool.windows[1]),
      steps_(FindPoolRows(pool.max)),
      end_(1) {
  for (int d = 0; d < 4; ++d) end_ += (images.x.dims[d] - 1) * images.x.strides[d];
  for (int k : {0, 1}) {
    const ops::Window& w = pool.windows[k];
    apart_ &= w.size <= w.stride && w.before == 0 &&
              SpanOf(w, images.y.dims[2 + k]) <= images.x.dims[2 + k];
  }
}

void PoolF32::Rows(OutputRow out, int64_t count) const {
  if (apart_) return RowsApart(out, count);
  if (h_.size * w_.size <= kFewTaps) return RowsOfFewTaps(out, count);
  float line[kSpan + kPoolSlack] = {};  // `taps` computes on a few beyond its own: numbers
  for (int64_t r = 0; r < count; ++r, ++out.row, out.y += images_.y.dims[3]) RowByLine(out, line);
}

bool PoolF32::stacked() const {
  const View& x = images_.x;
  return apart_ && images_.y.dims[2] * h_.stride == x.dims[2] &&
         (x.dims[1] == 1 || x.strides[1] == x.dims[2] * x.strides[2]) &&
         (x.dims[0] == 1 || x.strides[0] == x.dims[1] * x.dims[2] * x.strides[2]);
}

PoolF32::Clipped PoolF32::Clip(const ops::Window& w, int64_t begin, int64_t extent) {
  const int64_t first = UpTo(-begin, w.dilation), last = UpTo(extent - begin, w.dilation);
  return {begin + first * w.dilation, std::min(last, w.size) - first};
}

// Vectors may read beyond a row's end, as far as the images go.
PoolTaps PoolF32::TapsAt(int64_t first, int64_t rows, int64_t taps) const {
  const int64_t row_step = h_.dilation * images_.x.strides[2];
  return {images_.x.as<const float>() + first,
          rows,
          row_step,
          end_ - first - (rows - 1) * row_step,
          w_.stride,
          taps,
          w_.dilation};
}

// Windows that lie side by side, all of them in the image: each element is read once, as it lies.
void PoolF32::RowsApart(const OutputRow& out, int64_t count) const {
  const int64_t step = h_.stride * images_.x.strides[2];
  const int64_t divisor = pool_.divisor ? pool_.divisor : h_.size * w_.size;
  const int64_t pixels = images_.y.dims[3];
  steps_.taps(TapsAt(out.x + out.row * step, h_.size, w_.size), {count, step, pixels}, pixels,
              static_cast<float>(divisor), images_.y.as<float>() + out.y);
}

// Windows that overlap: those that lie in the image together, the others row by row, column by column.
void PoolF32::RowsOfFewTaps(OutputRow out, int64_t count) const {
  const int64_t height = images_.x.dims[2], pixels = images_.y.dims[3];
  const auto first_row = [&] { return out.row * h_.stride - h_.before; };
  while (count > 0) {
    const Clipped rows = Clip(h_, first_row(), height);
    const int64_t reach = (h_.size - 1) * h_.dilation;
    const int64_t whole = UpTo(height - reach - first_row(), h_.stride);
    const int64_t together = rows.count == h_.size ? std::min(whole, count) : 1;
    BandOfFewTaps(out, rows, together);
    out.row += together, out.y += together * pixels, count -= together;
  }
}

// Rows of the output whose windows see as many rows of the image.
void PoolF32::BandOfFewTaps(const OutputRow& out, const Clipped& rows, int64_t count) const {
  const int64_t width = images_.x.dims[3], pixels = images_.y.dims[3];
  const int64_t row_stride = images_.x.strides[2];
  float* const y = images_.y.as<float>() + out.y;
  const int64_t rows_counted =
      Counted(h_, out.row * h_.stride - h_.before, images_.x.dims[2], pool_.count_padding);
  const PoolOutput band{count, h_.stride * row_stride, pixels};
  const auto make = [&](int64_t first, int64_t last, const Clipped& taps) {
    const int64_t left = first * w_.stride - w_.before;
    const int64_t columns = Counted(w_, left, width, pool_.count_padding);
    const auto divisor = static_cast<float>(pool_.divisor ? pool_.divisor : rows_counted * columns);
    if (rows.count > 0 && taps.count > 0)
      return steps_.taps(TapsAt(out.x + rows.at * row_stride + taps.at, rows.count, taps.count),
                         band, last - first, divisor, y + first);
    const float nothing = pool_.max ? -std::numeric_limits<float>::infinity() : 0.0f / divisor;
    for (int64_t r = 0; r < count; ++r) std::fill_n(y + r * pixels + first, last - first, nothing);
  };
  const int64_t reach = (w_.size - 1) * w_.dilation;
  const int64_t first = std::min(UpTo(w_.before, w_.stride), pixels);
  const int64_t last = std::clamp(UpTo(width - reach + w_.before, w_.stride), first, pixels);
  // First: it may write beyond.
  if (first < last) make(first, last, {first * w_.stride - w_.before, w_.size});
  for (int64_t j = 0; j < pixels; ++j) {
    if (j == first) j = last;
    if (j < pixels) make(j, j + 1, Clip(w_, j * w_.stride - w_.before, width));
  }
}

// Rows of the windows into one line, then its taps.
void PoolF32::RowByLine(const OutputRow& out, float* line) const {
  const int64_t height = images_.x.dims[2], width = images_.x.dims[3];
  const float* const x = images_.x.as<const float>() + out.x;
  float* const y = images_.y.as<float>() + out.y;
  const int64_t top = out.row * h_.stride - h_.before;
  const float neutral = pool_.max ? -std::numeric_limits<float>::infinity() : 0.0f;
  for (int64_t begin = 0; begin < images_.y.dims[3]; begin += kPoolRun) {
    const int64_t end = std::min(begin + kPoolRun, images_.y.dims[3]);
    const int64_t left = begin * w_.stride - w_.before, span = SpanOf(w_, end - begin);
    const int64_t from = std::clamp<int64_t>(left, 0, width);
    const int64_t to = std::clamp<int64_t>(left + span, from, width);
    float* const inside = line + (from - left);
    const float* rows[kRowsAtOnce];
    int64_t seen = 0;
    for (int64_t p = 0; p < h_.size; ++p) {
      const int64_t at = top + p * h_.dilation;
      if (at < 0 || at >= height) continue;
      rows[seen++] = x + at * images_.x.strides[2] + from;
      if (seen < kRowsAtOnce) continue;
      steps_.rows(rows, seen, to - from, inside);
      rows[0] = inside, seen = 1;
    }
    if (seen > 0) steps_.rows(rows, seen, to - from, inside);
    if (seen == 0) std::fill_n(inside, to - from, neutral);
    if (from > left) std::fill_n(line, from - left, neutral);
    if (to < left + span) std::fill_n(line + (to - left), left + span - to, neutral);
    const auto taps = [&](int64_t first, int64_t last, int64_t divisor) {
      const int64_t skip = (first - begin) * w_.stride;
      const PoolTaps windows{line + skip, 1,       0,          kSpan + kPoolSlack - skip,
                             w_.stride,   w_.size, w_.dilation};
      steps_.taps(windows, {1, 0, 0}, last - first, static_cast<float>(divisor), y + first);
    };
    if (pool_.max || pool_.divisor) {
      taps(begin, end, pool_.divisor);
      continue;
    }
    // Windows that reach beyond an end divide by less: those in between have one divisor.
    const int64_t rows_counted = Counted(h_, top, height, pool_.count_padding);
    const auto columns = [&](int64_t j) {
      return Counted(w_, j * w_.stride - w_.before, width, pool_.count_padding);
    };
    int64_t first = begin, last = end;
    for (; first < last && columns(first) != w_.size; ++first)
      taps(first, first + 1, rows_counted * columns(first));
    for (; first < last && columns(last - 1) != w_.size; --last)
      taps(last - 1, last, rows_counted * columns(last - 1));
    if (first < last) taps(first, last, rows_counted * w_.size);
  }
}

}  // namespace liveshape::cpu
