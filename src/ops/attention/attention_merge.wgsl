// The sums that SPLITS workgroups left of one row become the row: each is scaled to the largest maximum of them.
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_index(wid, nwg);
  if (row >= p.batch * p.heads * p.rows) { return; }
  let s = row % p.rows;
  let h = row / p.rows % p.heads;
  let b = row / p.rows / p.heads;
  let g = h / (p.heads / p.groups);
  let first = row * p.splits;
  var most = -3.4028235e38;
  for (var i = 0u; i < p.splits; i++) { most = max(most, scratch((first + i) * SPLIT_WORDS + 1u)); }
  for (var e = 2u * lane; e < WIDTH; e += 128u) {
    var total = 0.0;
    var sum = vec2<f32>(0.0);
    for (var i = 0u; i < p.splits; i++) {
      let at = (first + i) * SPLIT_WORDS;
      let part = scratch(at);
      if (part != 0.0) {
        let weight = exp(scratch(at + 1u) - most);
        total += part * weight;
        sum += weight * vec2<f32>(scratch(at + 2u + e), scratch(at + 3u + e));
      }
    }
    put_result(b, h, s, g, e, sum, total);
  }
}
