// Many rows of 16-bit queries: 32 of one head a workgroup of 128, keys and values in blocks of 16 through workgroup memory,
// softmax online. A lane has two queries by two keys of the scores, and two queries by every eighth word of the result.
// Rows in workgroup memory are a word longer than they need be, so that lanes read from different banks.
const STRIDE = max(DEPTH, WIDTH) / 2u + 1u;
const WORDS = (WIDTH / 2u + 7u) / 8u;
var<workgroup> queries: array<u32, 32u * STRIDE>;
var<workgroup> block: array<u32, 16u * STRIDE>;
var<workgroup> scores: array<f32, 32u * 17u>;
var<workgroup> row_keys: array<u32, 32>;
var<workgroup> tile_keys: u32;

struct Row {
  s: u32,
  keys: u32,
  most: f32,
  total: f32,
}

// The two scores of a query become weights; what was summed before shrinks by what is returned.
fn soften(row: ptr<function, Row>, b: u32, h: u32, query: u32, t0: u32, key: u32, first: f32, second: f32) -> f32 {
  let a = masked(*row, b, h, t0 + key, first);
  let c = masked(*row, b, h, t0 + key + 8u, second);
  scores[query * 17u + key] = a;
  scores[query * 17u + key + 8u] = c;
  workgroupBarrier();
  var most = (*row).most;
  for (var i = 0u; i < 16u; i++) { most = max(most, scores[query * 17u + i]); }
  workgroupBarrier();
  let wa = select(exp(a - most), 0.0, a <= LEAST);
  let wc = select(exp(c - most), 0.0, c <= LEAST);
  scores[query * 17u + key] = wa;
  scores[query * 17u + key + 8u] = wc;
  workgroupBarrier();
  let shrink = select(exp((*row).most - most), 0.0, (*row).total == 0.0);
  var sum = 0.0;
  for (var i = 0u; i < 16u; i++) { sum += scores[query * 17u + i]; }
  (*row).total = (*row).total * shrink + sum;
  (*row).most = most;
  return shrink;
}

const LEAST = -3.4028235e38;

fn masked(row: Row, b: u32, h: u32, t: u32, product: f32) -> f32 {
  if (t >= row.keys || !keep(b, h, row.s, t)) { return LEAST; }
  let score = product * scale() + bias(b, h, row.s, t);
  return select(score, LEAST, is_inf(score) && score < 0.0);
}

@compute @workgroup_size(128) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let tiles = (p.rows + 31u) / 32u;
  let group = group_index(wid, nwg);
  if (group >= p.batch * p.heads * tiles) { return; }
  // The last rows see the most keys: begun first, they do not wait at the end.
  let s0 = (tiles - 1u - group / (p.batch * p.heads)) * 32u;
  let h = group % p.heads;
  let b = group / p.heads % p.batch;
  let g = h / (p.heads / p.groups);
  for (var i = lane; i < 32u * (DEPTH / 2u); i += 128u) {
    let s = s0 + i / (DEPTH / 2u);
    var word = 0u;
    if (s < p.rows) { word = query_word(b, h, s, i % (DEPTH / 2u)); }
    queries[i / (DEPTH / 2u) * STRIDE + i % (DEPTH / 2u)] = word;
  }
  if (lane < 32u) {
    var seen = 0u;
    if (s0 + lane < p.rows) { seen = visible(b, h, s0 + lane); }
    row_keys[lane] = seen;
  }
  workgroupBarrier();
  if (lane == 0u) {
    var most = 0u;
    for (var i = 0u; i < 32u; i++) { most = max(most, row_keys[i]); }
    tile_keys = most;
  }
  let keys = workgroupUniformLoad(&tile_keys);

  let query = lane / 8u;
  let key = lane % 8u;
  var low = Row(s0 + query, row_keys[query], LEAST, 0.0);
  var high = Row(s0 + query + 16u, row_keys[query + 16u], LEAST, 0.0);
  var sums_low: array<vec2<f32>, WORDS>;
  var sums_high: array<vec2<f32>, WORDS>;
  for (var t0 = 0u; t0 < keys; t0 += 16u) {
    for (var i = lane; i < 16u * (DEPTH / 2u); i += 128u) {
      let t = t0 + i / (DEPTH / 2u);
      var word = 0u;
      if (t < keys) { word = key_word(b, g, t, i % (DEPTH / 2u)); }
      block[i / (DEPTH / 2u) * STRIDE + i % (DEPTH / 2u)] = word;
    }
    workgroupBarrier();
    var dots = vec4<f32>(0.0);
    for (var w = 0u; w < DEPTH / 2u; w++) {
      let q0 = unpack_pair(queries[query * STRIDE + w]);
      let q1 = unpack_pair(queries[(query + 16u) * STRIDE + w]);
      let k0 = unpack_pair(block[key * STRIDE + w]);
      let k1 = unpack_pair(block[(key + 8u) * STRIDE + w]);
      dots += vec4<f32>(q0.x, q0.x, q1.x, q1.x) * vec4<f32>(k0.x, k1.x, k0.x, k1.x);
      dots += vec4<f32>(q0.y, q0.y, q1.y, q1.y) * vec4<f32>(k0.y, k1.y, k0.y, k1.y);
    }
    let shrink_low = soften(&low, b, h, query, t0, key, dots.x, dots.y);
    let shrink_high = soften(&high, b, h, query + 16u, t0, key, dots.z, dots.w);
    workgroupBarrier();
    for (var i = lane; i < 16u * (WIDTH / 2u); i += 128u) {
      let t = t0 + i / (WIDTH / 2u);
      var word = 0u;
      if (t < keys) { word = value_word(b, g, t, i % (WIDTH / 2u)); }
      block[i / (WIDTH / 2u) * STRIDE + i % (WIDTH / 2u)] = word;
    }
    workgroupBarrier();
    for (var j = 0u; j < WORDS; j++) {
      sums_low[j] *= shrink_low;
      sums_high[j] *= shrink_high;
    }
    for (var t = 0u; t < 16u; t++) {
      // Predicates: what lies behind the mask may be anything, and 0 * NaN is NaN.
      let a = scores[query * 17u + t];
      let c = scores[(query + 16u) * 17u + t];
      for (var j = 0u; j < WORDS; j++) {
        let v = unpack_pair(block[t * STRIDE + min(key + 8u * j, WIDTH / 2u - 1u)]);
        if (a != 0.0) { sums_low[j] += a * v; }
        if (c != 0.0) { sums_high[j] += c * v; }
      }
    }
    workgroupBarrier();
  }
  for (var j = 0u; j < WORDS; j++) {
    let e = 2u * (key + 8u * j);
    if (e < WIDTH && low.s < p.rows) { put_result(b, h, low.s, g, e, sums_low[j], low.total); }
    if (e < WIDTH && high.s < p.rows) { put_result(b, h, high.s, g, e, sums_high[j], high.total); }
  }
}
