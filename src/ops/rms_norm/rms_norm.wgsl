@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_index(wid, nwg);
  if (row >= p.rows) { return; }
  let first = row * p.width;
  var sum = 0.0;
  for (var i = lane; i < p.width; i += 64u) {
    let x = in0(p.in0_offset + first + i);
    sum += x * x;
  }
  let scale = 1.0 / sqrt(row_sum(lane, sum) / f32(p.width) + epsilon());
  for (var i = lane; i < p.width; i += 64u) {
    set_out0(first + i, in0(p.in0_offset + first + i) * scale * weight(i));
  }
}
