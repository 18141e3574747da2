// The sums that SPLITS workgroups left of one row become the row: each is scaled to the largest maximum of them.
var<workgroup> scales: array<f32, MOST_SPLITS>;
var<workgroup> parts: array<f32, MOST_SPLITS>;
var<workgroup> merged: array<f32, (WIDTH + 1u) / 2u * 2u>;

@compute @workgroup_size(128) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_index(wid, nwg);
  if (row >= p.batch * p.heads * p.rows) { return; }
  let s = row % p.rows;
  let h = row / p.rows % p.heads;
  let b = row / p.rows / p.heads;
  let g = h / (p.heads / p.groups);
  let first = row * p.splits;
  // The first of what is added comes while the scales are made.
@LOAD_FIRST@
  // Splits beyond the last are the last again, with a scale of 0.
  for (var i = lane; i < MOST_SPLITS; i += 128u) {
    let at = (first + min(i, p.splits - 1u)) * SPLIT_WORDS;
    let part = scratch(at);
    let none = i >= p.splits || part == 0.0;
    scales[i] = select(scratch(at + 1u), LEAST, none);
    parts[i] = select(part, 0.0, none);
  }
  workgroupBarrier();
  var most = LEAST;
  for (var i = 0u; i < p.splits; i++) { most = max(most, scales[i]); }
  workgroupBarrier();
  for (var i = lane; i < MOST_SPLITS; i += 128u) {
    scales[i] = select(exp(scales[i] - most), 0.0, scales[i] <= LEAST);
  }
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < p.splits; i++) { total += scales[i] * parts[i]; }
  for (var e = lane; e < WIDTH; e += 128u) {
    var sum = 0.0;
    for (var i = 0u; i < p.splits; i += 8u) {
      if (i > 0u || e >= 128u) {
@LOAD@
      }
@ADD@
    }
    merged[e] = sum;
  }
  workgroupBarrier();
  for (var e = 2u * lane; e < WIDTH; e += 256u) {
    put_result(b, h, s, g, e, vec2<f32>(merged[e], merged[min(e + 1u, WIDTH - 1u)]), total);
  }
}
