var<private> row_start: u32;
var<private> row_scale: f32;

fn row_value(i: u32) -> f32 {
  return rounded(in0(row_start + i) * row_scale) * weight(i);
}

@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_index(wid, nwg);
  if (row >= p.rows) { return; }
  row_start = at_in0(row);
  var sum = 0.0;
  for (var i = lane; i < p.width; i += 64u) {
    let x = in0(row_start + i);
    sum += x * x;
  }
  row_scale = 1.0 / sqrt(row_sum(lane, sum) / f32(p.width) + epsilon());
  store_row(row * p.width, lane);
}
