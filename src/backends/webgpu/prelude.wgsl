// Every shader begins with this, after its params and bindings.

// Groups are counted in one dimension; x and y are what was dispatched (W10).
fn group_index(wid: vec3<u32>, nwg: vec3<u32>) -> u32 {
  return wid.y * nwg.x + wid.x;
}

// A function, because a constant expression that is infinite or NaN is refused.
fn f32_bits(bits: u32) -> f32 {
  return bitcast<f32>(bits);
}

// WGSL may assume that there is no NaN: x != x is not to be relied on.
fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_inf(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

// Round to nearest even, NaN kept.
fn bf16_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if (is_nan(x)) { return 0x7fc0u; }
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

fn round_f16(x: f32) -> f32 {
  return unpack2x16float(pack2x16float(vec2<f32>(x, 0.0))).x;
}

fn round_bf16(x: f32) -> f32 {
  return f32_bits(bf16_bits(x) << 16u);
}

// torch's integers: division by zero fails the run, so what is returned then does not matter; the least integer by
// -1 wraps, as WGSL defines it too.
fn int_trunc_div(a: i32, b: i32) -> i32 {
  return a / select(b, 1, b == 0);
}

fn int_fmod(a: i32, b: i32) -> i32 {
  return a % select(b, 1, b == 0);
}

fn int_floor_div(a: i32, b: i32) -> i32 {
  let q = int_trunc_div(a, b);
  return select(q, q - 1, int_fmod(a, b) != 0 && ((a < 0) != (b < 0)));
}

fn int_remainder(a: i32, b: i32) -> i32 {
  let r = int_fmod(a, b);
  return select(r, r + b, r != 0 && ((r < 0) != (b < 0)));
}

fn int_shift_left(a: i32, by: i32) -> i32 {
  return select(a << (u32(by) & 31u), 0, by < 0 || by >= 32);
}

fn int_shift_right(a: i32, by: i32) -> i32 {
  return select(a >> (u32(by) & 31u), a >> 31u, by < 0 || by >= 32);
}

fn int_pow(a: i32, b: i32) -> i32 {
  if (b < 0) {
    if (a == 1) { return 1; }
    if (a == -1) { return select(1, -1, (b & 1) != 0); }
    return 0;
  }
  var base = a;
  var result = 1;
  var e = b;
  while (e != 0) {
    if ((e & 1) != 0) { result *= base; }
    base *= base;
    e = e >> 1u;
  }
  return result;
}
