// 64-bit integers as (lo, hi), exact: torch's int64 has no other form on a GPU.

fn i64_of(x: i32) -> vec2<u32> {
  return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u));
}

fn i64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let lo = a.x + b.x;
  return vec2<u32>(lo, a.y + b.y + select(0u, 1u, lo < a.x));
}

fn i64_neg(a: vec2<u32>) -> vec2<u32> {
  return i64_add(~a, vec2<u32>(1u, 0u));
}

fn i64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

// The full product of two words.
fn i64_wide(a: u32, b: u32) -> vec2<u32> {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let mid = ah * bl + (low >> 16u);
  let mid2 = al * bh + (mid & 0xffffu);
  return vec2<u32>((mid2 << 16u) | (low & 0xffffu), ah * bh + (mid >> 16u) + (mid2 >> 16u));
}

fn i64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = i64_wide(a.x, b.x);
  return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}

fn i64_eq(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x == b.x && a.y == b.y;
}

fn i64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
  if (a.y != b.y) { return bitcast<i32>(a.y) < bitcast<i32>(b.y); }
  return a.x < b.x;
}

fn i64_less_unsigned(a: vec2<u32>, b: vec2<u32>) -> bool {
  if (a.y != b.y) { return a.y < b.y; }
  return a.x < b.x;
}

fn i64_negative(a: vec2<u32>) -> bool {
  return (a.y >> 31u) != 0u;
}

fn i64_abs(a: vec2<u32>) -> vec2<u32> {
  if (i64_negative(a)) { return i64_neg(a); }
  return a;
}

fn i64_shl(a: vec2<u32>, by: u32) -> vec2<u32> {
  if (by == 0u) { return a; }
  if (by >= 32u) { return vec2<u32>(0u, a.x << (by - 32u)); }
  return vec2<u32>(a.x << by, (a.y << by) | (a.x >> (32u - by)));
}

fn i64_shr(a: vec2<u32>, by: u32) -> vec2<u32> {
  let hi = bitcast<i32>(a.y);
  if (by == 0u) { return a; }
  if (by >= 32u) {
    return vec2<u32>(bitcast<u32>(hi >> (by - 32u)), bitcast<u32>(hi >> 31u));
  }
  return vec2<u32>((a.x >> by) | (a.y << (32u - by)), bitcast<u32>(hi >> by));
}

// torch's: a shift beyond the width, or by a negative count, leaves 0 or the sign.
fn i64_shift_left(a: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
  if (by.y != 0u || by.x >= 64u) { return vec2<u32>(0u, 0u); }
  return i64_shl(a, by.x);
}

fn i64_shift_right(a: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
  if (by.y != 0u || by.x >= 64u) { return i64_shr(a, 63u); }
  return i64_shr(a, by.x);
}

// (quotient, rest) of unsigned numbers, bit by bit; b != 0.
fn i64_divide_unsigned(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  if (a.y == 0u && b.y == 0u) { return vec4<u32>(a.x / b.x, 0u, a.x % b.x, 0u); }
  var quotient = vec2<u32>(0u, 0u);
  var rest = vec2<u32>(0u, 0u);
  for (var i = 0u; i < 64u; i++) {
    let at = 63u - i;
    let top = rest.y >> 31u;
    rest = i64_shl(rest, 1u);
    rest.x |= select(a.x >> at, a.y >> (at - 32u), at >= 32u) & 1u;
    if (top != 0u || !i64_less_unsigned(rest, b)) {
      rest = i64_sub(rest, b);
      if (at >= 32u) { quotient.y |= 1u << (at - 32u); } else { quotient.x |= 1u << at; }
    }
  }
  return vec4<u32>(quotient, rest);
}

// Towards zero; the rest has the sign of a.
fn i64_divide(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  let d = i64_divide_unsigned(i64_abs(a), i64_abs(b));
  var quotient = d.xy;
  var rest = d.zw;
  if (i64_negative(a) != i64_negative(b)) { quotient = i64_neg(quotient); }
  if (i64_negative(a)) { rest = i64_neg(rest); }
  return vec4<u32>(quotient, rest);
}

fn i64_trunc_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return i64_divide(a, b).xy;
}

fn i64_fmod(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return i64_divide(a, b).zw;
}

fn i64_floor_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let d = i64_divide(a, b);
  if ((d.z | d.w) != 0u && i64_negative(a) != i64_negative(b)) {
    return i64_sub(d.xy, vec2<u32>(1u, 0u));
  }
  return d.xy;
}

fn i64_remainder(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let rest = i64_divide(a, b).zw;
  if ((rest.x | rest.y) != 0u && i64_negative(rest) != i64_negative(b)) { return i64_add(rest, b); }
  return rest;
}

// By squaring, wrapping; a negative exponent keeps only the bases 1 and -1.
fn i64_pow(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let one = vec2<u32>(1u, 0u);
  if (i64_negative(b)) {
    if (i64_eq(a, one)) { return one; }
    if (i64_eq(a, i64_neg(one))) { return select(one, a, vec2<bool>((b.x & 1u) != 0u)); }
    return vec2<u32>(0u, 0u);
  }
  var base = a;
  var result = one;
  var e = b;
  while ((e.x | e.y) != 0u) {
    if ((e.x & 1u) != 0u) { result = i64_mul(result, base); }
    base = i64_mul(base, base);
    e = vec2<u32>((e.x >> 1u) | (e.y << 31u), e.y >> 1u);
  }
  return result;
}

// Rounded once, to nearest even, as a C cast does: the word below is kept as a sticky bit.
fn i64_to_f32(a: vec2<u32>) -> f32 {
  let m = i64_abs(a);
  var r: f32;
  if (m.y == 0u) {
    r = f32(m.x);
  } else {
    let shift = 32u - countLeadingZeros(m.y);  // 1 to 32: what remains fits a word
    var top = i64_shl(m, 32u - shift).y;
    if (shift == 32u) { top = m.y; }
    let lost = i64_shl(m, 32u - shift).x;
    r = f32(top | select(0u, 1u, lost != 0u)) * exp2(f32(shift));
  }
  return select(r, -r, i64_negative(a));
}

// Towards zero.
fn i64_from_f32(x: f32) -> vec2<u32> {
  let m = trunc(abs(x));
  let hi = u32(floor(m / 4294967296.0));
  let lo = u32(m - f32(hi) * 4294967296.0);
  let r = vec2<u32>(lo, hi);
  if (x < 0.0) { return i64_neg(r); }
  return r;
}

fn i64_sign(a: vec2<u32>) -> vec2<u32> {
  if (i64_negative(a)) { return vec2<u32>(0xffffffffu, 0xffffffffu); }
  return vec2<u32>(select(0u, 1u, (a.x | a.y) != 0u), 0u);
}
