// Functions that WGSL lacks, or gives too roughly for results that should be torch's to 1e-5.

fn math_tanh(x: f32) -> f32 {
  let a = abs(x);
  if (is_nan(x)) { return x; }
  if (a < 0.25) {  // the series: 1 - exp would cancel
    let z = x * x;
    return x * (1.0 + z * (-0.33333333 + z * (0.13333333 + z * (-0.053968254 + z * 0.021869488))));
  }
  let e = exp(-2.0 * min(a, 20.0));
  return sign(x) * (1.0 - e) / (1.0 + e);
}

// By its series where it is short, else 1 minus a rational approximation (Abramowitz and Stegun 7.1.26, 1.5e-7).
fn math_erf(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  if (a < 0.7) {
    let z = x * x;
    return x * (1.1283791671 + z * (-0.3761263890 + z * (0.1128379167 + z * (-0.0268661706 +
           z * (0.0052239776 + z * (-0.0008548327 + z * 0.0001205533))))));
  }
  let t = 1.0 / (1.0 + 0.3275911 * a);
  let poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 +
             t * 1.061405429))));
  return sign(x) * (1.0 - poly * exp(-min(a * a, 80.0)));
}

fn math_expm1(x: f32) -> f32 {
  if (abs(x) > 0.25) { return exp(x) - 1.0; }
  return x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 +
         x * (0.0013888889 + x * 0.0001984127))))));
}

// Near 0 by the series of 2 atanh(x / (2 + x)): log is good to 2^-21 there, whatever little of it is left.
fn math_log1p(x: f32) -> f32 {
  if (abs(x) < 0.4) {
    let s = x / (2.0 + x);
    let z = s * s;
    return 2.0 * s * (1.0 + z * (0.33333333 + z * (0.2 + z * (0.14285714 + z * (0.11111111 +
           z * 0.09090909)))));
  }
  return log(1.0 + x);
}

fn math_sigmoid(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let e = exp(-abs(x));
  return select(e, 1.0, x >= 0.0) / (1.0 + e);
}

fn math_silu(x: f32) -> f32 {
  if (is_inf(x)) { return max(x, 0.0 * x); }
  return x * math_sigmoid(x);
}

fn math_gelu(x: f32) -> f32 {
  return x * 0.5 * (1.0 + math_erf(x * 0.70710678118654752));
}

fn math_gelu_tanh(x: f32) -> f32 {
  return 0.5 * x * (1.0 + math_tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

// min and max carry NaN on.
fn math_min(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  return select(b, a, a < b);
}

fn math_max(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  return select(b, a, a > b);
}

// Exact, as long division by powers of two is: exp2 is not, and a - b * n loses bits.
fn math_fmod(a: f32, b: f32) -> f32 {
  if (is_nan(a) || is_nan(b) || is_inf(a) || b == 0.0) { return f32_bits(0x7fc00000u); }
  if (is_inf(b)) { return a; }
  var r = abs(a);
  let d = abs(b);
  // No quotient has more bits; where subnormals are flushed to zero, `step` would stay 0 for ever.
  for (var i = 0u; i < 320u && r >= d; i++) {
    let k = min((bitcast<u32>(r) >> 23u) - (bitcast<u32>(d) >> 23u), 126u);
    var step = d * f32_bits((k + 127u) << 23u);
    if (step > r) { step *= 0.5; }
    r -= step;
  }
  return select(r, -r, (bitcast<u32>(a) >> 31u) != 0u);
}

fn math_remainder(a: f32, b: f32) -> f32 {
  let r = math_fmod(a, b);
  if (r != 0.0 && ((b < 0.0) != (r < 0.0))) { return r + b; }
  return r;
}

fn math_floor_div(a: f32, b: f32) -> f32 {
  if (b == 0.0) { return a / b; }
  let m = math_fmod(a, b);
  var d = (a - m) / b;
  if (m != 0.0 && ((b < 0.0) != (m < 0.0))) { d -= 1.0; }
  let f = floor(d);
  return select(f, f + 1.0, d - f > 0.5);
}

fn math_pow(a: f32, b: f32) -> f32 {
  if (b == 0.0) { return 1.0; }
  if (a == 0.0 || is_nan(a) || is_nan(b)) {
    if (a == 0.0 && b > 0.0) { return 0.0; }
    if (a == 0.0) { return f32_bits(0x7f800000u); }
    return f32_bits(0x7fc00000u);
  }
  if (b == 2.0) { return a * a; }
  let whole = floor(b) == b;
  if (a < 0.0 && !whole) { return f32_bits(0x7fc00000u); }
  if (whole && abs(b) <= 16.0) {  // exact where it can be
    var r = 1.0;
    for (var i = 0.0; i < abs(b); i += 1.0) { r *= a; }
    return select(r, 1.0 / r, b < 0.0);
  }
  let m = pow(abs(a), b);
  let odd = floor(b * 0.5) * 2.0 != b;
  return select(m, -m, a < 0.0 && odd);
}

// A driver may fold x / 0 to anything (seen: lavapipe of Mesa 22.3 gives 0 for a constant divisor).
fn math_div(a: f32, b: f32) -> f32 {
  if (b == 0.0) {
    if (a == 0.0 || is_nan(a)) { return f32_bits(0x7fc00000u); }
    return f32_bits(0x7f800000u | ((bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u));
  }
  return a / b;
}

// Through atan2: the built-in ones are polynomials, off by 4e-4 on lavapipe.
fn math_asin(x: f32) -> f32 {
  if (is_nan(x) || abs(x) > 1.0) { return f32_bits(0x7fc00000u); }
  return atan2(x, sqrt((1.0 - x) * (1.0 + x)));
}

fn math_acos(x: f32) -> f32 {
  if (is_nan(x) || abs(x) > 1.0) { return f32_bits(0x7fc00000u); }
  return atan2(sqrt((1.0 - x) * (1.0 + x)), x);
}
