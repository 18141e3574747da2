// One row a workgroup of 64: sums and maxima over its lanes, in one fixed order.
var<workgroup> row_lanes: array<f32, 64>;
var<workgroup> row_eights: array<f32, 8>;

fn row_sum(lane: u32, value: f32) -> f32 {
  workgroupBarrier();
  row_lanes[lane] = value;
  workgroupBarrier();
  if (lane < 8u) {
    var sum = row_lanes[lane];
    for (var i = 8u; i < 64u; i += 8u) { sum += row_lanes[lane + i]; }
    row_eights[lane] = sum;
  }
  workgroupBarrier();
  var sum = row_eights[0];
  for (var i = 1u; i < 8u; i++) { sum += row_eights[i]; }
  return sum;
}

fn row_max(lane: u32, value: f32) -> f32 {
  workgroupBarrier();
  row_lanes[lane] = value;
  workgroupBarrier();
  if (lane < 8u) {
    var most = row_lanes[lane];
    for (var i = 8u; i < 64u; i += 8u) { most = max(most, row_lanes[lane + i]); }
    row_eights[lane] = most;
  }
  workgroupBarrier();
  var most = row_eights[0];
  for (var i = 1u; i < 8u; i++) { most = max(most, row_eights[i]); }
  return most;
}
