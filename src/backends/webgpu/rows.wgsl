// One row a workgroup of 64: sums and maxima over its lanes, in one fixed order.
var<workgroup> row_lanes: array<f32, 64>;

fn row_sum(lane: u32, value: f32) -> f32 {
  workgroupBarrier();
  row_lanes[lane] = value;
  for (var step = 32u; step > 0u; step /= 2u) {
    workgroupBarrier();
    if (lane < step) { row_lanes[lane] += row_lanes[lane + step]; }
  }
  workgroupBarrier();
  return row_lanes[0];
}

fn row_max(lane: u32, value: f32) -> f32 {
  workgroupBarrier();
  row_lanes[lane] = value;
  for (var step = 32u; step > 0u; step /= 2u) {
    workgroupBarrier();
    if (lane < step) { row_lanes[lane] = max(row_lanes[lane], row_lanes[lane + step]); }
  }
  workgroupBarrier();
  return row_lanes[0];
}
