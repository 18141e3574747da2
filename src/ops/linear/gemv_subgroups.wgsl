// How the lanes of a GEMV add what they have, where subgroups have a known size: each has added its own before it comes
// here, and left one sum of every part.
const SUBGROUPS = LANES / SUBGROUP;
var<workgroup> sums: array<vec4<f32>, SUBGROUPS * PARTS * QUADS * JOINED>;
var<workgroup> squares: array<f32, SUBGROUPS>;

fn sum_of_lanes(lane: u32, value: f32) -> f32 {
  let sum = subgroupAdd(value);
  if (lane % SUBGROUP == 0u) { squares[lane / SUBGROUP] = sum; }
  workgroupBarrier();
  var all = squares[0];
  for (var i = 1u; i < SUBGROUPS; i++) { all += squares[i]; }
  return all;
}

fn reduce_columns(lane: u32) {
  if (lane < 16u * JOINED) {
    let column = lane % 16u;
    let first = lane / 16u * SUBGROUPS * PARTS + column / 4u / QUADS;
    var sum = 0.0;
    for (var i = 0u; i < SUBGROUPS; i++) {
      sum += sums[(first + i * PARTS) * QUADS + column / 4u % QUADS][column % 4u];
    }
    columns[lane] = sum;
  }
}
