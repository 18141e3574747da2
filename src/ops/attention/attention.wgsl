// One row of queries a workgroup of 64: keys in blocks of 64, softmax online, so that no row of scores is kept.
// DEPTH, WIDTH and WIDTH_LANES are constants of the node.
var<workgroup> query: array<f32, DEPTH>;
var<workgroup> weights: array<f32, 64>;
var<workgroup> live_keys: u32;

@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_index(wid, nwg);
  if (row >= p.batch * p.heads * p.rows) { return; }
  let s = row % p.rows;
  let h = row / p.rows % p.heads;
  let b = row / p.rows / p.heads;
  let g = h / (p.heads / p.groups);
  if (lane == 0u) { live_keys = visible(b, h, s); }
  for (var d = lane; d < DEPTH; d += 64u) { query[d] = q(b, h, s, d); }
  let keys = workgroupUniformLoad(&live_keys);

  var most = -3.4028235e38;
  var total = 0.0;
  var sums: array<f32, WIDTH_LANES>;
  for (var t0 = 0u; t0 < keys; t0 += 64u) {
    let t = t0 + lane;
    var score = 0.0;
    var seen = t < keys;
    if (seen) {
      for (var d = 0u; d < DEPTH; d++) { score += query[d] * k(b, g, t, d); }
      score = score * scale();
      seen = keep(b, h, s, t);
      if (seen) {
        score += bias(b, h, s, t);
        seen = !(is_inf(score) && score < 0.0);
      }
    }
    let before = most;
    most = max(most, row_max(lane, select(-3.4028235e38, score, seen)));
    let shrink = select(exp(before - most), 0.0, total == 0.0);
    let weight = select(0.0, exp(score - most), seen);
    total = total * shrink + row_sum(lane, weight);
    weights[lane] = weight;
    workgroupBarrier();
    let block = min(64u, keys - t0);
    for (var i = 0u; i < WIDTH_LANES; i++) {
      let e = lane + 64u * i;
      var sum = sums[i] * shrink;
      if (e < WIDTH) {
        for (var j = 0u; j < block; j++) {
          // A predicate: what lies behind the mask may be anything, and 0 * NaN is NaN.
          if (weights[j] != 0.0) { sum += weights[j] * v(b, g, t0 + j, e); }
        }
      }
      sums[i] = sum;
    }
    workgroupBarrier();
  }
  for (var i = 0u; i < WIDTH_LANES; i++) {
    let e = lane + 64u * i;
    if (e < WIDTH) {
      var y = sums[i] / total;
      if (total == 0.0) { y = all_masked(b, g, e); }
      set_out0(row * WIDTH + e, y);
    }
  }
}
