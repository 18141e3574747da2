// exp, log, tanh, erf, sin ... of f32 vectors, with torch's answers at NaN, infinities, zeros and
// denormals. Errors below are against double over all of the range (every 4099th float), AVX2, measured
// by math_test.cc; the portable and wasm targets, without FMA, are up to 1 ulp worse.
// Included per target, as Highway's own -inl headers (see simd/dispatch.h).
#if defined(LS_SIMD_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LS_SIMD_MATH_INL
#undef LS_SIMD_MATH_INL
#else
#define LS_SIMD_MATH_INL
#endif

#include <cmath>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// c0 + x (c1 + x (c2 + ...)): Horner, coefficients from the highest power down.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Horner(D d, V x, V sum) {
  return sum;
}
template <class D, class V = hn::Vec<D>, typename... Rest>
HWY_INLINE V Horner(D d, V x, V sum, hn::TFromD<D> next, Rest... rest) {
  return Horner(d, x, hn::MulAdd(sum, x, hn::Set(d, next)), rest...);
}

// Rounded to nearest: adding 1.5 * 2^23 leaves the integer in the low bits of the float. Half the
// instructions of NearestInt, which in Highway 1.0.3 also repairs overflow. |v| < 2^22.
template <class D>
struct Nearest {
  using V = hn::Vec<D>;
  using VI = hn::Vec<hn::RebindToSigned<D>>;
  V value;                        // as a float
  VI bits;                        // 0x4B400000 + the integer
  HWY_INLINE Nearest(D d, V v) {  // v = product + 1.5 * 2^23
    bits = hn::BitCast(hn::RebindToSigned<D>(), v);
    value = hn::Sub(v, hn::Set(d, 12582912.0f));
  }
  HWY_INLINE VI integer() const {
    return hn::Sub(bits, hn::Set(hn::RebindToSigned<D>(), 0x4B400000));
  }
  HWY_INLINE V power_of_two(D d) const {  // 2^integer, for [-126, 127]; the shift drops 0x4B400000
    const hn::RebindToSigned<D> di;
    return hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(bits), hn::Set(di, 0x3F800000)));
  }
};
// round(x * scale)
template <class D, class V = hn::Vec<D>>
HWY_INLINE Nearest<D> NearestProduct(D d, V x, float scale) {
  return Nearest<D>(d, hn::MulAdd(x, hn::Set(d, scale), hn::Set(d, 12582912.0f)));
}

template <class D, class VI>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, VI n) {  // n in [-126, 127]
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// x - n ln2 for n = round(x / ln2), in two parts: n * kLn2Hi is exact for |n| < 2^15.
inline constexpr float kLn2Hi = 0.693359375f, kLn2Lo = -2.12194440e-4f,
                       kLog2e = 1.44269504088896341f;
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ReduceLn2(D d, V x, V n) {
  return hn::NegMulAdd(n, hn::Set(d, kLn2Lo), hn::NegMulAdd(n, hn::Set(d, kLn2Hi), x));
}

// e^r - 1 on |r| <= ln2 / 2 (Cephes expf's polynomial).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1Reduced(D d, V r) {
  const V p = Horner(d, r, hn::Set(d, 1.9875691500e-4f), 1.3981999507e-3f, 8.3334519073e-3f,
                     4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  return hn::MulAdd(p, hn::Mul(r, r), r);
}

// y * 2^n for n in [-252, 254], rounded once.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ScaleByPowerOfTwo(D d, V y, const Nearest<D>& n) {
#if HWY_TARGET == HWY_AVX3
  constexpr size_t kLanes = hn::MaxLanes(D());
  if constexpr (kLanes == 16) return V{_mm512_scalef_ps(y.raw, n.value.raw)};
  if constexpr (kLanes == 8) return V{_mm256_scalef_ps(y.raw, n.value.raw)};
  if constexpr (kLanes <= 4) return V{_mm_scalef_ps(y.raw, n.value.raw)};
#else
  const auto whole = n.integer(), half = hn::ShiftRight<1>(whole);
  return hn::Mul(hn::Mul(y, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(whole, half)));
#endif
}

// max and min of v and what is known to be a number; NaN where v is. An instruction on x86, whose max and min give the
// second where there is a NaN; Highway leaves that open.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MaxNumber(D, V v, V number) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Max(number, v);
#else
  return hn::IfThenElse(hn::Gt(number, v), number, v);
#endif
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MinNumber(D, V v, V number) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Min(number, v);
#else
  return hn::IfThenElse(hn::Lt(number, v), number, v);
#endif
}

// Into [lo, hi]; NaN stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Clamped(D d, V x, float lo, float hi) {
  return MinNumber(d, MaxNumber(d, x, hn::Set(d, lo)), hn::Set(d, hi));
}

// 1 ulp; denormal results are exact to rounding, below -104 it is 0, above 88.7228 inf.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const V c = Clamped(d, x, -104.0f, 89.0f);
  const auto n = NearestProduct(d, c, kLog2e);
  const V y = hn::Add(Expm1Reduced(d, ReduceLn2(d, c, n.value)), hn::Set(d, 1.0f));
  return ScaleByPowerOfTwo(d, y, n);
}

// For softmax: x <= 0 or NaN. Results below 2^-126 are 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpNonPositive(D d, V x) {
  const V c = MaxNumber(d, x, hn::Set(d, -87.33f));
  const auto n = NearestProduct(d, c, kLog2e);
  const V scale = n.power_of_two(d);
  const V y = hn::MulAdd(Expm1Reduced(d, ReduceLn2(d, c, n.value)), scale, scale);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33f)), y);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  const V c = Clamped(d, x, -151.0f, 129.0f);
  const auto n = NearestProduct(d, c, 1.0f);
  const V r = hn::Mul(hn::Sub(c, n.value), hn::Set(d, 0.693147180559945f));
  return ScaleByPowerOfTwo(d, hn::Add(Expm1Reduced(d, r), hn::Set(d, 1.0f)), n);
}

// 2^n (e^r - 1) + (2^n - 1), at half scale so that n = 128 does not overflow early. 2 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1(D d, V x) {
  const V c = Clamped(d, x, -30.0f, 89.0f);
  const auto n = NearestProduct(d, c, kLog2e);
  const hn::RebindToSigned<D> di;
  const V half_scale = PowerOfTwo(d, hn::Sub(n.integer(), hn::Set(di, 1)));
  const V p = Expm1Reduced(d, ReduceLn2(d, c, n.value));
  const V half = hn::MulAdd(p, half_scale, hn::Sub(half_scale, hn::Set(d, 0.5f)));
  const V y = hn::Add(half, half);
  // -0 and tiny x, where e^x - 1 = x.
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1e-12f)), x, y);
}

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)): log(1 + f) = f + tail. Cephes logf's polynomial.
template <class D, class V = hn::Vec<D>>
struct LogParts {
  V e, f, tail;
  HWY_INLINE LogParts(D d, V x) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (hn::MaxLanes(D()) == 16) {  // where denormals are as others
      const auto mantissa = _mm512_getmant_ps(x.raw, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
      const auto exponent = _mm512_getexp_ps(x.raw);
      const auto large = _mm512_cmp_ps_mask(mantissa, _mm512_set1_ps(1.41421356f), _CMP_GE_OQ);
      e = V{_mm512_mask_add_ps(exponent, large, exponent, _mm512_set1_ps(1.0f))};
      f = V{_mm512_sub_ps(_mm512_mask_mul_ps(mantissa, large, mantissa, _mm512_set1_ps(0.5f)),
                          _mm512_set1_ps(1.0f))};
      tail = Tail(d, f);
      return;
    }
#endif
    const hn::RebindToSigned<D> di;
    const auto tiny = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
    const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
    const auto bits = hn::BitCast(di, scaled);
    const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
    e = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
    f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent))), hn::Set(d, 1.0f));
    tail = Tail(d, f);
  }
  static HWY_INLINE V Tail(D d, V f) {
    const V p = Horner(d, f, hn::Set(d, 7.0376836292e-2f), -1.1514610310e-1f, 1.1676998740e-1f,
                       -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
                       -2.4999993993e-1f, 3.3333331174e-1f);
    const V f2 = hn::Mul(f, f);
    return hn::MulAdd(hn::Mul(f2, f), p, hn::Mul(f2, hn::Set(d, -0.5f)));
  }
};

// log at 0 (-inf), below 0 and at NaN (NaN), at inf (inf).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogEdges(D d, V x, V y) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) {
    // For x a quiet NaN, a signalling one, 0, 1, -inf, inf, negative, positive, four bits each: 1 is x, 2 a NaN as x, 3 a NaN,
    // 4 -inf, 0 y.
    return V{_mm512_fixupimm_ps(y.raw, x.raw, _mm512_set1_epi32(0x03530422), 0)};
  }
#endif
  const V zero = hn::Zero(d);
  y = hn::IfThenElse(hn::Eq(x, hn::Set(d, kInf)), x, y);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Set(d, -kInf), y);
  return hn::IfThenElse(hn::Ge(x, zero), y, hn::Set(d, kNaN));
}

// 1 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  const LogParts<D> p(d, x);
  const V low = hn::MulAdd(p.e, hn::Set(d, kLn2Lo), p.tail);
  return LogEdges(d, x, hn::MulAdd(p.e, hn::Set(d, kLn2Hi), hn::Add(p.f, low)));
}

// log2(e) is split as 1 + 0.4427, so that nothing is lost where e = 0 and powers of two are exact.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log2(D d, V x) {
  const LogParts<D> p(d, x);
  const V k = hn::Set(d, 0.44269504088896340736f);
  const V low = hn::Add(hn::MulAdd(p.tail, k, hn::Mul(p.f, k)), p.tail);
  return LogEdges(d, x, hn::Add(hn::Add(low, p.f), p.e));
}

// log(u) + (x - (u - 1)) / u for u = 1 + x rounded: the correction restores what the rounding of u lost
// (Kahan's idea, written so that infinities need no care but at +inf). 2 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(x, one);
  const V lost = hn::Div(hn::Sub(x, hn::Sub(u, one)), u);
  const LogParts<D> p(d, u);
  const V low = hn::MulAdd(p.e, hn::Set(d, kLn2Lo), hn::Add(p.tail, lost));
  V y = hn::MulAdd(p.e, hn::Set(d, kLn2Hi), hn::Add(p.f, low));
  y = LogEdges(d, u, y);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1e-12f)), x, y);
}

// m / (m + 2) of m = e^2|x| - 1. 2.3 ulp. From 9.02 on it is 1 in f32.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V a = MinNumber(d, hn::Abs(x), hn::Set(d, 10.0f)), c = hn::Add(a, a);
  const auto n = NearestProduct(d, c, kLog2e);
  const V scale = n.power_of_two(d);
  const V p = Expm1Reduced(d, ReduceLn2(d, c, n.value));
  const V m = hn::MulAdd(p, scale, hn::Sub(scale, hn::Set(d, 1.0f)));
  return hn::CopySign(hn::Div(m, hn::Add(m, hn::Set(d, 2.0f))), x);
}

// 1 + e^-x. Beyond -88 something as large that grows with x: what is divided by it is a denormal or 0 there. Half of the
// instructions that scale Exp are for results that 1 hides.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V OnePlusExpNeg(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  return hn::Add(Exp(d, hn::Neg(x)), hn::Set(d, 1.0f));  // whose scaling is one instruction
#else
  const V t = hn::Neg(x), most = hn::Set(d, 88.0f);
  const V c = Clamped(d, t, -87.0f, 88.0f);
  const auto n = NearestProduct(d, c, kLog2e);
  const V scale = n.power_of_two(d);
  const V y = hn::MulAdd(Expm1Reduced(d, ReduceLn2(d, c, n.value)), scale, scale);
  // An infinity and NaN too.
  const V large = hn::Mul(t, hn::Set(d, 2e36f));
  return hn::Add(hn::IfThenElse(hn::Le(t, most), y, large), hn::Set(d, 1.0f));
#endif
}

// 2 ulp to x = -88; below, 0 or a denormal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  return hn::Div(hn::Set(d, 1.0f), OnePlusExpNeg(d, x));
}

// As torch computes it: x / (1 + e^-x), which is NaN at -inf there too.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  return hn::Div(x, OnePlusExpNeg(d, x));
}

// N. Juffa's erff: x + x P(x^2) near 0, 1 - e^Q(|x|) beyond 0.9277. 1 ulp. NaN takes the near side.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  const V magnitude = hn::Abs(x);
  const V a = hn::Min(magnitude, hn::Set(d, 4.0f));
  const V a2 = hn::Mul(a, a);
  V far = hn::MulAdd(a, hn::Set(d, -1.72853470e-5f), hn::Set(d, 3.83197126e-4f));
  far = hn::MulAdd(far, a2, hn::MulAdd(a, hn::Set(d, -3.88396438e-3f), hn::Set(d, 2.42546219e-2f)));
  far = Horner(d, a, far, -1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f);
  far = hn::MulSub(far, a, a);
  // e^far for far in [-17, 0]: nothing to clamp.
  const auto n = NearestProduct(d, far, kLog2e);
  const V scale = n.power_of_two(d);
  const V one = hn::Set(d, 1.0f);
  far = hn::Sub(one, hn::MulAdd(Expm1Reduced(d, ReduceLn2(d, far, n.value)), scale, scale));
  const V x2 = hn::Mul(x, x);
  V near = Horner(d, x2, hn::Set(d, -5.96761703e-4f), 4.99119423e-3f, -2.67681349e-2f,
                  1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f);
  near = hn::MulAdd(near, x, x);
  return hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0.927734375f)), hn::CopySign(far, x), near);
}

// erf(z) = z P(z^2) / Q(z^2) on [-3.925, 3.925], fitted by least squares with weights that level the ripples:
// 2e-8 before rounding, 4e-7 after, half the work of Erf. Beyond, erf is 1 to an f32; on the left that makes the
// factor exactly 0, so that -inf gives NaN as torch's does.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  const V limit = hn::Set(d, 3.925f), one = hn::Set(d, 1.0f);
  const V z = hn::Mul(x, hn::Set(d, 0.70710678118654752f));
  const V c = hn::Max(hn::Min(z, limit), hn::Neg(limit));
  const V c2 = hn::Mul(c, c);
  const V p = Horner(d, c2, hn::Set(d, 2.046047442e-06f), 2.848434651e-04f, 3.772505197e-03f,
                     5.276915787e-02f, 1.905925745e-01f, 1.128379146e+00f);
  const V q = Horner(d, c2, hn::Set(d, 3.804798264e-05f), 1.163848770e-03f, 1.498310538e-02f,
                     1.141822482e-01f, 5.022410018e-01f, 1.0f);
  const V cdf = hn::IfThenElse(hn::Lt(z, hn::Neg(limit)), hn::Zero(d),
                               hn::Add(one, hn::Div(hn::Mul(c, p), q)));
  return hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)), cdf);
}

// x (1 + tanh(inner)) / 2, as x / (1 + e^(-2 inner)).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  const V cube = hn::Mul(hn::Mul(x, x), x);
  const V twice =
      hn::Mul(hn::Set(d, 1.5957691216057308f), hn::MulAdd(hn::Set(d, 0.044715f), cube, x));
  return hn::Div(x, OnePlusExpNeg(d, twice));
}

// y, but where not `usual` what libm's f gives for that lane.
template <class D, class F, class V = hn::Vec<D>, class... Vs>
HWY_INLINE V WithLibm(D d, hn::Mask<D> usual, V y, F f, Vs... x) {
  if (HWY_LIKELY(hn::AllTrue(d, usual))) return y;
  constexpr size_t kMost = HWY_MAX_BYTES / sizeof(float);
  HWY_ALIGN float in[sizeof...(x)][kMost], out[kMost], kept[kMost];
  size_t i = 0;
  (hn::Store(x, d, in[i++]), ...);
  hn::Store(y, d, out);
  hn::Store(hn::IfThenElseZero(usual, hn::Set(d, 1.0f)), d, kept);
  for (size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    if (kept[lane] != 0) continue;
    if constexpr (sizeof...(x) == 1)
      out[lane] = f(in[0][lane]);
    else
      out[lane] = f(in[0][lane], in[1][lane]);
  }
  return hn::Load(d, out);
}

// sin (kPhase 0) and cos (kPhase 1). r = x - q pi/2 in three parts: with FMA good to |x| = 1e5, without
// (Cephes' short parts, exact products) to 1024; lanes beyond, and infinities, go to libm one by one, so
// positions far out in a context stay exact. 2 ulp.
template <int kPhase, class D, class V = hn::Vec<D>>
HWY_INLINE V SinOrCos(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto q = NearestProduct(d, x, 0.63661977236758134f);
  const V qf = q.value;
#if HWY_NATIVE_FMA
  constexpr float kLimit = 1e5f;
  V r = hn::NegMulAdd(qf, hn::Set(d, 0x1.921fb6p+0f), x);
  r = hn::NegMulAdd(qf, hn::Set(d, -0x1.777a5cp-25f), r);
  r = hn::NegMulAdd(qf, hn::Set(d, -0x1.ee59dap-50f), r);
#else
  constexpr float kLimit = 1024.0f;
  V r = hn::Sub(x, hn::Mul(qf, hn::Set(d, 1.5703125f)));
  r = hn::Sub(r, hn::Mul(qf, hn::Set(d, 4.837512969970703125e-4f)));
  r = hn::Sub(r, hn::Mul(qf, hn::Set(d, 7.54978995489188216e-8f)));
#endif
  const V s = hn::Mul(r, r);
  const V sine = hn::MulAdd(
      hn::Mul(Horner(d, s, hn::Set(d, -1.9515295891e-4f), 8.3321608736e-3f, -1.6666654611e-1f), s),
      r, r);
  const V cosine = hn::MulAdd(hn::Mul(Horner(d, s, hn::Set(d, 2.443315711809948e-5f),
                                             -1.388731625493765e-3f, 4.166664568298827e-2f),
                                      s),
                              s, hn::MulAdd(s, hn::Set(d, -0.5f), hn::Set(d, 1.0f)));
  const auto quadrant = hn::Add(q.bits, hn::Set(di, kPhase));  // the low two bits count
  const auto odd = hn::RebindMask(d, hn::Ne(hn::And(quadrant, hn::Set(di, 1)), hn::Zero(di)));
  const V sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(di, 2))));
  const V y = hn::Xor(hn::IfThenElse(odd, cosine, sine), sign);
  const auto small = hn::Le(hn::Abs(x), hn::Set(d, kLimit));  // false at NaN
  return WithLibm(d, small, y, [](float v) { return kPhase == 0 ? std::sin(v) : std::cos(v); }, x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sin(D d, V x) {
  return SinOrCos<0>(d, x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Cos(D d, V x) {
  return SinOrCos<1>(d, x);
}

// Cephes' atanf: about 0 for |x| <= tan(pi/8), about 1 to tan(3 pi/8), of -1/x beyond. 2 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Atan(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0f);
  const auto middle = hn::Gt(a, hn::Set(d, 0.41421356237309503f));
  const auto far = hn::Gt(a, hn::Set(d, 2.414213562373095f));
  const V above = hn::IfThenElse(far, hn::Neg(one), hn::IfThenElse(middle, hn::Sub(a, one), a));
  const V below = hn::IfThenElse(far, a, hn::IfThenElse(middle, hn::Add(a, one), one));
  const V r = hn::Div(above, below);
  const V s = hn::Mul(r, r);
  const V p = Horner(d, s, hn::Set(d, 8.05374449538e-2f), -1.38776856032e-1f, 1.99777106478e-1f,
                     -3.33329491539e-1f);
  const V tail = hn::Mul(hn::Mul(p, s), r);
  // pi/4 and pi/2 as what an f32 holds of them and what is left.
  const V base = hn::IfThenElse(far, hn::Set(d, 0x1.921fb6p+0f),
                                hn::IfThenElseZero(middle, hn::Set(d, 0x1.921fb6p-1f)));
  const V rest = hn::IfThenElse(far, hn::Set(d, -0x1.777a5cp-25f),
                                hn::IfThenElseZero(middle, hn::Set(d, -0x1.777a5cp-26f)));
  return hn::CopySign(hn::Add(base, hn::Add(r, hn::Add(tail, rest))), x);
}

// As torch.maximum and minimum: NaN if either is, as all bits set if b is, which is cheaper than a choice.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MaxNaN(D d, V a, V b) {
  return hn::Or(MaxNumber(d, a, b), hn::VecFromMask(d, hn::IsNaN(b)));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MinNaN(D d, V a, V b) {
  return hn::Or(MinNumber(d, a, b), hn::VecFromMask(d, hn::IsNaN(b)));
}

}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
