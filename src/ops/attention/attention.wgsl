// One row of queries a workgroup: a key a lane, keys in blocks of LANES, softmax online, so that no row of scores is
// kept. The context may be split over SPLITS workgroups, which leave their sums in scratch for attention_merge.wgsl.
// DEPTH, WIDTH, LANES, PAIRS, SLICES and PER_LANE are constants of the node: see webgpu.cc.
var<workgroup> query: array<vec4<f32>, (DEPTH + 3u) / 4u>;
var<workgroup> weights: array<f32, LANES>;
var<workgroup> mixed: array<vec2<f32>, LANES>;
var<workgroup> live_keys: u32;
var<workgroup> lane_values: array<f32, LANES>;
var<workgroup> few_values: array<f32, LANES / 16u>;

fn lanes_max(lane: u32, value: f32) -> f32 {
  lane_values[lane] = value;
  workgroupBarrier();
  if (lane < LANES / 16u) {
    var most = lane_values[lane * 16u];
    for (var i = 1u; i < 16u; i++) { most = max(most, lane_values[lane * 16u + i]); }
    few_values[lane] = most;
  }
  workgroupBarrier();
  var most = few_values[0];
  for (var i = 1u; i < LANES / 16u; i++) { most = max(most, few_values[i]); }
  return most;
}

fn lanes_sum(lane: u32, value: f32) -> f32 {
  lane_values[lane] = value;
  workgroupBarrier();
  if (lane < LANES / 16u) {
    var sum = lane_values[lane * 16u];
    for (var i = 1u; i < 16u; i++) { sum += lane_values[lane * 16u + i]; }
    few_values[lane] = sum;
  }
  workgroupBarrier();
  var sum = few_values[0];
  for (var i = 1u; i < LANES / 16u; i++) { sum += few_values[i]; }
  return sum;
}

@compute @workgroup_size(LANES) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_index(wid, nwg);
  if (group >= p.batch * p.heads * p.rows * p.splits) { return; }
  let row = group / p.splits;
  let split = group % p.splits;
  let s = row % p.rows;
  let h = row / p.rows % p.heads;
  let b = row / p.rows / p.heads;
  let g = h / (p.heads / p.groups);
  if (lane == 0u) { live_keys = visible(b, h, s); }
  for (var d = lane; d < (DEPTH + 3u) / 4u; d += LANES) { query[d] = query_quad(b, h, s, 4u * d); }
  let visible_keys = workgroupUniformLoad(&live_keys);
  let first = split * p.split_keys;
  let keys = min(visible_keys, first + p.split_keys);

  var most = -3.4028235e38;
  var total = 0.0;
  var sums: array<vec2<f32>, PER_LANE>;
  let pair = lane % (PAIRS / PER_LANE);
  let slice = lane / (PAIRS / PER_LANE);
  for (var t0 = first; t0 < keys; t0 += LANES) {
    let t = t0 + lane;
    var score = 0.0;
    var seen = t < keys;
    if (seen) {
      score = key_product(b, g, t) * scale();
      seen = keep(b, h, s, t);
      if (seen) {
        score += bias(b, h, s, t);
        seen = !(is_inf(score) && score < 0.0);
      }
    }
    let before = most;
    most = max(most, lanes_max(lane, select(-3.4028235e38, score, seen)));
    let shrink = select(exp(before - most), 0.0, total == 0.0);
    let weight = select(0.0, exp(score - most), seen);
    weights[lane] = weight;
    total = total * shrink + lanes_sum(lane, weight);
    let block = min(LANES, keys - t0);
    for (var i = 0u; i < PER_LANE; i++) {
      var sum = sums[i] * shrink;
      if (slice < SLICES) {
        for (var j = slice; j < block; j += SLICES) {
          // A predicate: what lies behind the mask may be anything, and 0 * NaN is NaN.
          let w = weights[j];
          if (w != 0.0) { sum += w * value_pair(b, g, t0 + j, 2u * (pair + i * (PAIRS / PER_LANE))); }
        }
      }
      sums[i] = sum;
    }
    workgroupBarrier();
  }
  for (var i = 0u; i < PER_LANE; i++) {
    mixed[lane] = sums[i];
    workgroupBarrier();
    if (slice == 0u) {
      var sum = mixed[lane];
      for (var j = 1u; j < SLICES; j++) { sum += mixed[lane + j * (PAIRS / PER_LANE)]; }
      put_pair(b, h, s, g, 2u * (pair + i * (PAIRS / PER_LANE)), group, sum, total, most);
    }
    workgroupBarrier();
  }
}
