var<private> row_first: u32;
var<private> row_most: f32;
var<private> row_total: f32;
var<private> row_seen: bool;

fn row_value(i: u32) -> f32 {
  let x = in0(p.in0_offset + row_first + i * p.inner);
  if (!row_seen) { return all_masked(); }
  if (is_inf(x) && x < 0.0) { return masked(); }
  return scaled(x, row_most, row_total);
}

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
  row_first = first;
  row_most = most;
  row_total = sum;
  row_seen = seen != 0.0;
  store_row(first, lane);
}
