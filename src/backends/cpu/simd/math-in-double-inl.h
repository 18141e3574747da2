// f32 functions computed in double: sums that cancel, quotients and powers keep bits to spare there, so results are
// within 0.51 ulp, and exact where the function is (fmod). They cost two of math-inl.h's and a fraction of libm's.
//
//   const hn::ScalableTag<float> d;
//   hn::StoreU(Pow(d, hn::LoadU(d, x), hn::LoadU(d, y)), d, out);
//
// Included per target, as Highway's own -inl headers; LS_MATH_IN_DOUBLE tells whether the target has them.
#if defined(LS_SIMD_MATH_IN_DOUBLE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LS_SIMD_MATH_IN_DOUBLE_INL
#undef LS_SIMD_MATH_IN_DOUBLE_INL
#else
#define LS_SIMD_MATH_IN_DOUBLE_INL
#endif

#include "backends/cpu/simd/math-inl.h"

#undef LS_MATH_IN_DOUBLE
#define LS_MATH_IN_DOUBLE (HWY_HAVE_FLOAT64 && HWY_TARGET != HWY_SCALAR)
#undef LS_FMOD_IN_DOUBLE
#define LS_FMOD_IN_DOUBLE (LS_MATH_IN_DOUBLE && HWY_NATIVE_FMA)  // products must be exact

#if LS_MATH_IN_DOUBLE

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// f of vectors of f32, half of them at a time.
template <class F, class D, class... Vs>
HWY_INLINE hn::Vec<D> InDouble(D d, F f, Vs... x) {
  const hn::Half<D> half;
  const hn::Rebind<double, decltype(half)> d64;
  const auto lower = f(d64, hn::PromoteTo(d64, hn::LowerHalf(half, x))...);
  const auto upper = f(d64, hn::PromoteTo(d64, hn::UpperHalf(half, x))...);
  return hn::Combine(d, hn::DemoteTo(half, upper), hn::DemoteTo(half, lower));
}

// log2 of x > 0 that is normal: x = 2^e m, m in [sqrt(1/2), sqrt(2)), log2(m) = 2 / ln2 atanh((m - 1) / (m + 1)),
// |.| <= 0.172, by its series.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log2OfPositive(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto biased = hn::ShiftRight<52>(hn::Add(bits, hn::Set(du, 0x00095F619980C433ull)));
  const V e = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::Set(du, 0x4330000000000000ull))),
                      hn::Set(d, 0x1p52 + 1023));
  const auto exponent = hn::ShiftLeft<52>(biased);
  const V m = hn::BitCast(d, hn::Add(hn::Sub(bits, exponent), hn::Set(du, 0x3FF0000000000000ull)));
  const V one = hn::Set(d, 1.0);
  const V t = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const V s = hn::Mul(t, t);
  const V p = Horner(d, s, hn::Set(d, 1.0 / 13), 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0);
  return hn::MulAdd(hn::Mul(p, t), hn::Set(d, 2.8853900817779268), e);
}

// 2^z = 2^n e^(r ln2), |r| <= 1/2. f32 ends far before z does; NaN becomes a number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2OfNumber(D d, V z) {
  const hn::RebindToUnsigned<D> du;
  const V limit = hn::Set(d, 1000.0), magic = hn::Set(d, 0x1.8p52);
  const V c = hn::Max(hn::Min(z, limit), hn::Neg(limit));
  const V shifted = hn::Add(c, magic);
  const V u = hn::Mul(hn::Sub(c, hn::Sub(shifted, magic)), hn::Set(d, 0.6931471805599453));
  const V q = Horner(d, u, hn::Set(d, 1.0 / 40320), 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                     1.0 / 6, 0.5, 1.0, 1.0);
  const auto power =
      hn::Add(hn::ShiftLeft<52>(hn::BitCast(du, shifted)), hn::Set(du, 0x3FF0000000000000ull));
  return hn::Mul(q, hn::BitCast(d, power));
}

// Of a negative x too, which has a power if y is an integer. Lanes with zeros, infinities and NaN go to libm.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Pow(D d, V x, V y) {
  const V a = hn::Abs(x), zero = hn::Zero(d), inf = hn::Set(d, kInf),
          half_y = hn::Mul(y, hn::Set(d, 0.5f));
  const V size = InDouble(
      d,
      [](auto d64, auto v, auto w)
          HWY_ATTR { return Exp2OfNumber(d64, hn::Mul(w, Log2OfPositive(d64, v))); },
      a, y);
  const auto negative = hn::Lt(x, zero), whole = hn::Eq(hn::Floor(y), y);
  const auto even = hn::Eq(hn::Floor(half_y), half_y);  // as every float from 2^24 on
  const V of_negative =
      hn::IfThenElse(whole, hn::IfThenElse(even, size, hn::Neg(size)), hn::Set(d, kNaN));
  const V r = hn::IfThenElse(negative, of_negative, size);
  const auto usual =
      hn::And(hn::And(hn::Gt(a, zero), hn::Lt(a, inf)), hn::Lt(hn::Abs(y), inf));  // false at NaN
  return WithLibm(d, usual, r, [](float v, float w) { return std::pow(v, w); }, x, y);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log10(D d, V x) {
  const V y = InDouble(
      d,
      [](auto d64, auto v)
          HWY_ATTR { return hn::Mul(Log2OfPositive(d64, v), hn::Set(d64, 0.30102999566398120)); },
      x);
  return LogEdges(d, x, y);
}

// (e^|x| -+ e^-|x|) / 2, near 0 the series of sinh.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOfMagnitude(D d, V x) {
  return Exp2OfNumber(d, hn::Mul(hn::Abs(x), hn::Set(d, 1.4426950408889634)));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sinh(D d, V x) {
  const V y = InDouble(
      d,
      [](auto d64, auto v) HWY_ATTR {
        const auto e = ExpOfMagnitude(d64, v), half = hn::Set(d64, 0.5), s = hn::Mul(v, v);
        const auto far = hn::Mul(hn::Sub(e, hn::Div(hn::Set(d64, 1.0), e)), half);
        const auto p = Horner(d64, s, hn::Set(d64, 1.0 / 362880), 1.0 / 5040, 1.0 / 120, 1.0 / 6);
        const auto near = hn::MulAdd(hn::Mul(p, s), v, v);
        return hn::IfThenElse(hn::Gt(hn::Abs(v), half), hn::CopySign(far, v), near);
      },
      x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Cosh(D d, V x) {
  const V y = InDouble(
      d,
      [](auto d64, auto v) HWY_ATTR {
        const auto e = ExpOfMagnitude(d64, v);
        return hn::Mul(hn::Add(e, hn::Div(hn::Set(d64, 1.0), e)), hn::Set(d64, 0.5));
      },
      x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// Polynomials below are fitted by least squares with weights that level the ripples: 1e-9 of the result or less.

// sin / cos of r = x - q pi/2, pi/2 in three parts of 33 bits: exact to q = 2^20. Lanes beyond go to libm one by one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tan(D d, V x) {
  const V y = InDouble(
      d,
      [](auto d64, auto v) HWY_ATTR {
        const hn::RebindToUnsigned<decltype(d64)> du;
        const auto magic = hn::Set(d64, 0x1.8p52);
        const auto shifted = hn::MulAdd(v, hn::Set(d64, 0.63661977236758134), magic);
        const auto q = hn::Sub(shifted, magic);
        auto r = hn::NegMulAdd(q, hn::Set(d64, 1.57079632673412561417), v);
        r = hn::NegMulAdd(q, hn::Set(d64, 6.07710050630396597660e-11), r);
        r = hn::NegMulAdd(q, hn::Set(d64, 2.02226624879595063154e-21), r);
        const auto s = hn::Mul(r, r);
        const auto sine = hn::MulAdd(
            hn::Mul(Horner(d64, s, hn::Set(d64, 2.7249380485248397e-06), -0.00019840081730369247,
                           0.0083333318632175645, -0.16666666663816104),
                    s),
            r, r);
        const auto cosine =
            hn::MulAdd(Horner(d64, s, hn::Set(d64, -2.7300659807468393e-07), 2.4800597643706188e-05,
                              -0.001388888766577541, 0.041666666664300085, -0.5),
                       s, hn::Set(d64, 1.0));
        const auto one = hn::Set(du, 1);
        const auto odd = hn::RebindMask(d64, hn::Eq(hn::And(hn::BitCast(du, shifted), one), one));
        return hn::Div(hn::IfThenElse(odd, hn::Neg(cosine), sine),
                       hn::IfThenElse(odd, sine, cosine));
      },
      x);
  const V a = hn::Abs(x);
  const auto usual = hn::And(hn::Le(a, hn::Set(d, 1e6f)), hn::Gt(a, hn::Zero(d)));  // false at NaN
  return WithLibm(d, usual, y, [](float v) { return std::tan(v); }, x);
}

// Of |x| to 1/2 by a polynomial, beyond by that of sqrt((1 - |x|) / 2), whose angle is half of what is missing from pi/2.
template <class D>
struct ArcSine {
  using V = hn::Vec<D>;
  V angle;  // of |x|, or half of the complement
  hn::Mask<D> far;
  HWY_INLINE ArcSine(D d, V x) {
    const V a = hn::Abs(x), half = hn::Set(d, 0.5);
    far = hn::Gt(a, half);
    const V z = hn::IfThenElse(far, hn::Mul(hn::Sub(hn::Set(d, 1.0), a), half), hn::Mul(x, x));
    const V s = hn::IfThenElse(far, hn::Sqrt(z), a);
    const V p = Horner(d, z, hn::Set(d, 0.03108236924833685), 0.010494000864229421,
                       0.023634278323796703, 0.030266251876278603, 0.044647831207133525,
                       0.074999920509593296, 0.16666666687289008);
    angle = hn::MulAdd(hn::Mul(p, z), s, s);
  }
};
inline constexpr double kPi = 3.14159265358979323846;
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Asin(D d, V x) {
  return InDouble(
      d,
      [](auto d64, auto v) HWY_ATTR {
        const ArcSine<decltype(d64)> arc(d64, v);
        const auto twice = hn::Add(arc.angle, arc.angle);
        return hn::CopySign(
            hn::IfThenElse(arc.far, hn::Sub(hn::Set(d64, kPi / 2), twice), arc.angle), v);
      },
      x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Acos(D d, V x) {
  return InDouble(
      d,
      [](auto d64, auto v) HWY_ATTR {
        const ArcSine<decltype(d64)> arc(d64, v);
        const auto twice = hn::Add(arc.angle, arc.angle);
        const auto behind = hn::Lt(v, hn::Zero(d64));
        const auto far = hn::IfThenElse(behind, hn::Sub(hn::Set(d64, kPi), twice), twice);
        const auto near = hn::Sub(hn::Set(d64, kPi / 2), hn::CopySign(arc.angle, v));
        return hn::IfThenElse(arc.far, far, near);
      },
      x);
}

// The angle of the smaller of |x| and |y| over the larger, from 0 or from pi/4, then turned to where the point is.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Atan2(D d, V y, V x) {
  const V r = InDouble(
      d,
      [](auto d64, auto v, auto u) HWY_ATTR {
        const auto zero = hn::Zero(d64), most = hn::Set(d64, 1e300);  // for infinities
        const auto a = hn::Min(hn::Abs(v), most), b = hn::Min(hn::Abs(u), most);
        const auto steep = hn::Gt(a, b);
        const auto low = hn::Min(a, b), high = hn::Max(a, b);
        const auto middle = hn::Gt(low, hn::Mul(high, hn::Set(d64, 0.41421356237309503)));
        const auto above = hn::IfThenElse(middle, hn::Sub(low, high), low);
        const auto below = hn::IfThenElse(middle, hn::Add(low, high), high);
        const auto t = hn::Div(above, hn::IfThenElse(hn::Eq(below, zero), most, below));
        const auto s = hn::Mul(t, t);
        const auto p = Horner(d64, s, hn::Set(d64, 0.050517192636572589), -0.086262278943986928,
                              0.11071600687877683, -0.14284165830935455, 0.19999977577909023,
                              -0.33333333280375171);
        const auto base = hn::IfThenElseZero(middle, hn::Set(d64, kPi / 4));
        auto angle = hn::Add(base, hn::MulAdd(hn::Mul(p, s), t, t));
        angle = hn::IfThenElse(steep, hn::Sub(hn::Set(d64, kPi / 2), angle), angle);
        const auto behind = hn::Lt(hn::CopySign(most, u), zero);  // -0 too
        angle = hn::IfThenElse(behind, hn::Sub(hn::Set(d64, kPi), angle), angle);
        return hn::CopySign(angle, v);
      },
      y, x);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::Set(d, kNaN), r);
}

#if LS_FMOD_IN_DOUBLE
// What is left of a by whole multiples of b, with a's sign; exact: a quotient below 2^53 is off by one at most, and
// larger ones leave a rest 2^52 times smaller, of which it is done again, six times at most.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Fmod(D d, V a, V b) {
  return InDouble(
      d,
      [](auto d64, auto v, auto w) HWY_ATTR {
        const auto by = hn::Abs(w);
        auto rest = hn::Abs(v);
        for (;;) {
          const auto more = hn::Ge(hn::Abs(rest), by);  // false at NaN
          if (hn::AllFalse(d64, more)) break;
          const auto q = hn::Trunc(hn::Div(rest, by));
          rest = hn::IfThenElse(more, hn::NegMulAdd(q, by, rest), rest);
        }
        rest = hn::IfThenElse(hn::Lt(rest, hn::Zero(d64)), hn::Add(rest, by), rest);
        return hn::IfThenElse(hn::IsNaN(w), w, hn::CopySign(rest, v));
      },
      a, b);
}

// c10's div_floor_floating and remainder, with its roundings.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Mask<D> PointsAway(D d, V rest, V b) {
  const V zero = hn::Zero(d);
  return hn::And(hn::Not(hn::Eq(rest, zero)), hn::Xor(hn::Lt(b, zero), hn::Lt(rest, zero)));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Remainder(D d, V a, V b) {
  const V rest = Fmod(d, a, b);
  return hn::IfThenElse(PointsAway(d, rest, b), hn::Add(rest, b), rest);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V FloorDiv(D d, V a, V b) {
  const V one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  const V ratio = hn::Div(a, b), rest = Fmod(d, a, b);
  V whole = hn::Div(hn::Sub(a, rest), b);
  whole = hn::Sub(whole, hn::IfThenElseZero(PointsAway(d, rest, b), one));
  const V floor = hn::Floor(whole);
  const auto up = hn::Gt(hn::Sub(whole, floor), hn::Set(d, 0.5f));
  const V y = hn::IfThenElse(hn::Eq(whole, zero), hn::CopySign(zero, ratio),
                             hn::Add(floor, hn::IfThenElseZero(up, one)));
  return hn::IfThenElse(hn::Eq(b, zero), ratio, y);
}
#endif

}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LS_MATH_IN_DOUBLE
#endif  // per-target include guard
