@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_index(wid, nwg);
  if (row >= p.rows) { return; }
  let first = (row / p.inner) * p.width * p.inner + row % p.inner;
  var most = -3.4028235e38;
  var seen = 0.0;  // 1 if any element is not -inf
  for (var i = lane; i < p.width; i += 64u) {
    let x = in0(p.in0_offset + first + i * p.inner);
    if (!(is_inf(x) && x < 0.0)) {
      most = max(most, x);
      seen = 1.0;
    }
  }
  most = row_max(lane, most);
  seen = row_max(lane, seen);
  var sum = 0.0;
  for (var i = lane; i < p.width; i += 64u) {
    let x = in0(p.in0_offset + first + i * p.inner);
    if (!(is_inf(x) && x < 0.0)) { sum += exp(x - most); }
  }
  sum = row_sum(lane, sum);
  for (var i = lane; i < p.width; i += 64u) {
    let at = first + i * p.inner;
    let x = in0(p.in0_offset + at);
    var y = 0.0;
    if (seen == 0.0) {
      y = all_masked();
    } else if (!(is_inf(x) && x < 0.0)) {
      y = exp(x - most) / sum;
    }
    set_out0(at, y);
  }
}
