// The arithmetic of cpu_winograd.h: points of weights and images, and pixels of sums, along vectors of tiles.
#if defined(LIVESHAPE_CONV_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CONV_WINOGRAD_INL_H_
#undef LIVESHAPE_CONV_WINOGRAD_INL_H_
#else
#define LIVESHAPE_CONV_WINOGRAD_INL_H_
#endif

#include "hwy/highway.h"
#include "ops/conv/cpu_winograd.h"
#include "ops/conv/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

using Vec = hn::Vec<Lane>;

// A sum along one dim: `count` points of the image by as many of the weight, from these on.
struct Terms { int64_t point, weight, count; };

// What WinogradFormOf(kStride) says of sizes, and the arithmetic along one dim.
template <int kStride>
struct Form;

template <>
struct Form<1> {
  static constexpr Terms kTerms[] = {{0, 0, 1}, {1, 1, 1}, {2, 2, 1}, {3, 3, 1}};
  static HWY_INLINE void Weight(Vec a, Vec b, Vec c, Vec (&to)[4]) {
    const auto half = hn::Set(Lane(), 0.5f);
    const auto ends = hn::Add(a, c);
    to[0] = a;
    to[1] = hn::Mul(half, hn::Add(ends, b));
    to[2] = hn::Mul(half, hn::Sub(ends, b));
    to[3] = c;
  }
  static HWY_INLINE void Image(const Vec (&d)[4], Vec (&to)[4]) {
    to[0] = hn::Sub(d[0], d[2]);
    to[1] = hn::Add(d[1], d[2]);
    to[2] = hn::Sub(d[2], d[1]);
    to[3] = hn::Sub(d[1], d[3]);
  }
  static HWY_INLINE void Pixels(const Vec (&sums)[4], Vec& first, Vec& second) {
    first = hn::Add(hn::Add(sums[0], sums[1]), sums[2]);
    second = hn::Sub(hn::Sub(sums[1], sums[2]), sums[3]);
  }
};

template <>
struct Form<2> {
  static constexpr Terms kTerms[] = {{0, 0, 2}, {2, 1, 2}, {4, 3, 1}};
  static HWY_INLINE void Weight(Vec a, Vec b, Vec c, Vec (&to)[4]) {
    to[0] = a;
    to[1] = b;
    to[2] = c;
    to[3] = hn::Add(a, c);
  }
  static HWY_INLINE void Image(const Vec (&d)[5], Vec (&to)[5]) {
    to[0] = hn::Sub(d[0], d[2]);
    to[1] = d[1];
    to[2] = d[3];
    to[3] = hn::Sub(d[4], d[2]);
    to[4] = d[2];
  }
  static HWY_INLINE void Pixels(const Vec (&sums)[3], Vec& first, Vec& second) {
    first = hn::Add(sums[0], sums[2]);
    second = hn::Add(sums[1], sums[2]);
  }
};

template <int kStride>
void WeightPoints(const ConvCall& call, int64_t panel, float* points) {
  const Lane d;
  const Winograd winograd(call.h, call.w);
  const WindowParts &tall = winograd.down, &wide = winograd.across;
  const int64_t parts = winograd.parts();
  const float* from = call.panels + panel * call.depth() * 16;
  for (int64_t c = 0; c < call.channels; ++c, from += call.taps() * 16) {
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t i = part / wide.count(), j = part % wide.count();
      const float* const first = from + (tall.begin(i) * call.w.size + wide.begin(j)) * 16;
      for (int64_t lane = 0; lane < 16; lane += kPixelLanes) {
        const auto tap = [&](int64_t p, int64_t q) HWY_ATTR {
          return p < tall.taps(i) && q < wide.taps(j)
                     ? hn::LoadU(d, first + (p * call.w.size + q) * 16 + lane)
                     : hn::Zero(d);
        };
        Vec across[3][kWeightPoints];
        for (int p = 0; p < 3; ++p)
          Form<kStride>::Weight(tap(p, 0), tap(p, 1), tap(p, 2), across[p]);
        for (int q = 0; q < kWeightPoints; ++q) {
          Vec down[kWeightPoints];
          Form<kStride>::Weight(across[0][q], across[1][q], across[2][q], down);
          for (int p = 0; p < kWeightPoints; ++p) {
            const int64_t row = ((p * kWeightPoints + q) * parts + part) * call.channels + c;
            hn::StoreU(down[p], d, points + row * 16 + lane);
          }
        }
      }
    }
  }
}

// to[s] = from[s], from[s + move], ...: what as many neighbouring tiles as a vector has lanes see of a row.
template <int kMove, int kSeen>
HWY_INLINE void SeenByTiles(const float* from, Vec (&to)[kSeen]) {
  const Lane d;
#if HWY_TARGET == HWY_SCALAR
  for (int s = 0; s < kSeen; ++s) to[s] = hn::LoadU(d, from + s);
#else
  const auto even = [&](Vec low, Vec high) HWY_ATTR { return hn::ConcatEven(d, high, low); };
  const auto odd = [&](Vec low, Vec high) HWY_ATTR { return hn::ConcatOdd(d, high, low); };
  const auto load = [&](int64_t at) HWY_ATTR { return hn::LoadU(d, from + at); };
  constexpr int64_t n = kPixelLanes;
  if constexpr (kMove == 2) {
    to[0] = even(load(0), load(n)), to[1] = odd(load(0), load(n));
    to[2] = even(load(2), load(2 + n)), to[3] = odd(load(2), load(2 + n));
  } else {
    const auto even_low = even(load(0), load(n)), even_high = even(load(2 * n), load(3 * n));
    const auto odd_low = odd(load(0), load(n)), odd_high = odd(load(2 * n), load(3 * n));
    to[0] = even(even_low, even_high), to[1] = even(odd_low, odd_high);
    to[2] = odd(even_low, even_high), to[3] = odd(odd_low, odd_high);
    to[4] = even(even(load(4), load(4 + n)), even(load(4 + 2 * n), load(4 + 3 * n)));
  }
#endif
}

// Some tile rows of one channel, with their padding.
struct TileImage {
  const float* data;
  int64_t rows, columns;  // tiles
  int64_t line;
};

// Points of one channel, each `step` from the next, tiles side by side. A row's last vector ends with it, or, where rows
// are shorter than a vector, is overwritten by the next row's. False: something is not finite.
template <int kStride>
bool ImageToPoints(const TileImage& image, float* points, int64_t step) {
  constexpr WinogradForm kForm = WinogradFormOf(kStride);
  constexpr int kSeen = kForm.seen, kPoints = kForm.points, kMove = kForm.move();
  constexpr int kShared = kSeen - kMove;
  const Lane d;
  const auto inside = hn::FirstN(d, image.columns);
  Vec any = hn::Zero(d);  // NaN once something was not finite
  for (int64_t t = 0; t < image.columns; t += kPixelLanes) {
    if (t > 0 && t + kPixelLanes > image.columns) t = image.columns - kPixelLanes;
    const auto row = [&](int64_t r, Vec(&to)[kPoints]) HWY_ATTR {
      Vec seen[kSeen];
      SeenByTiles<kMove>(image.data + r * image.line + kMove * t, seen);
      HWY_UNROLL(5)
      for (int s = 0; s < kSeen; ++s)
        any = hn::MulAdd(hn::IfThenElseZero(inside, seen[s]), hn::Zero(d), any);
      Form<kStride>::Image(seen, to);
    };
    Vec rows[kSeen][kPoints];
    for (int r = 0; r < kShared; ++r) row(r, rows[r]);
    for (int64_t i = 0; i < image.rows; ++i) {
      HWY_UNROLL(5)
      for (int r = kShared; r < kSeen; ++r) row(kMove * i + r, rows[r]);
      float* to = points + i * image.columns + t;
      HWY_UNROLL(5)
      for (int q = 0; q < kPoints; ++q) {
        Vec seen[kSeen], down[kPoints];
        HWY_UNROLL(5)
        for (int r = 0; r < kSeen; ++r) seen[r] = rows[r][q];
        Form<kStride>::Image(seen, down);
        HWY_UNROLL(5)
        for (int p = 0; p < kPoints; ++p) hn::StoreU(down[p], d, to + (p * kPoints + q) * step);
        HWY_UNROLL(2)
        for (int r = 0; r < kShared; ++r) rows[r][q] = rows[r + kMove][q];
      }
    }
  }
  return hn::AllTrue(d, hn::Eq(any, hn::Zero(d)));
}

// Tiles [0, columns) of one tile row: sums `step` apart to pixels of two rows, of which `width` are in the image, each
// `apart` from its neighbour.
template <int kStride>
void SumsToPixels(const float* sums, int64_t step, int64_t columns, int64_t width, float bias,
                  float* upper, float* lower, int64_t apart) {
  constexpr int kSums = WinogradFormOf(kStride).sums;
  const Lane d;
  const auto b = hn::Set(d, bias);
  const auto store = [&](Vec even, Vec odd, int64_t t, float* to) HWY_ATTR {
    if (apart == 1 && 2 * (t + kPixelLanes) <= width)
      return hn::StoreInterleaved2(hn::Add(even, b), hn::Add(odd, b), d, to + 2 * t);
    HWY_ALIGN float some[2 * kPixelLanes];
    hn::StoreInterleaved2(hn::Add(even, b), hn::Add(odd, b), d, some);
    for (int64_t i = 0; i < 2 * kPixelLanes && 2 * t + i < width; ++i)
      to[(2 * t + i) * apart] = some[i];
  };
  for (int64_t t = 0; t < columns; t += kPixelLanes) {
    if (t > 0 && t + kPixelLanes > columns) t = columns - kPixelLanes;
    Vec up[kSums], down[kSums], even, odd;
    HWY_UNROLL(4)
    for (int q = 0; q < kSums; ++q) {
      Vec column[kSums];
      HWY_UNROLL(4)
      for (int p = 0; p < kSums; ++p) column[p] = hn::LoadU(d, sums + (p * kSums + q) * step + t);
      Form<kStride>::Pixels(column, up[q], down[q]);
    }
    Form<kStride>::Pixels(up, even, odd);
    store(even, odd, t, upper);
    if (lower == nullptr) continue;
    Form<kStride>::Pixels(down, even, odd);
    store(even, odd, t, lower);
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
