// How the lanes of a GEMV add what they have, through workgroup memory.
var<workgroup> sums: array<vec4<f32>, LANES * QUADS * JOINED>;
var<workgroup> slices: array<f32, LANES * JOINED>;

fn sum_of_lanes(lane: u32, value: f32) -> f32 {
  slices[lane] = value;
  workgroupBarrier();
  if (lane < LANES / 16u) {
    var sum = slices[lane];
    for (var i = 1u; i < 16u; i++) { sum += slices[lane + i * (LANES / 16u)]; }
    columns[lane] = sum;
  }
  workgroupBarrier();
  var sum = columns[0];
  for (var i = 1u; i < LANES / 16u; i++) { sum += columns[i]; }
  return sum;
}

// Column c of the 16 lies with the lanes whose part has it.
fn reduce_columns(lane: u32) {
  let column = lane % 16u;
  let part = column / 4u / QUADS;
  let quad = column / 4u % QUADS;
  for (var j = 0u; j < JOINED; j++) {
    var sum = 0.0;
    for (var i = lane / 16u; i < LANES / PARTS; i += LANES / 16u) {
      sum += sums[(j * LANES + i * PARTS + part) * QUADS + quad][column % 4u];
    }
    slices[j * LANES + lane] = sum;
  }
  workgroupBarrier();
  if (lane < 16u * JOINED) {
    var sum = 0.0;
    for (var i = 0u; i < LANES / 16u; i++) { sum += slices[lane / 16u * LANES + i * 16u + column]; }
    columns[lane] = sum;
  }
}
