// Few rows times a weight in panels of 16: a workgroup has 16 columns of one row (of each of JOINED products), its lanes
// share K. Everything that a lane reads of a chunk of K is on its way before it waits for any of it: weights, the row, the
// norm's factors. Sums are taken in one fixed order, so equal rows give equal bits wherever they lie.
// webgpu_gemv.cc writes what stands between @s, and `store(m, n0, lane)`: from columns[j * 16 + n % 16] to the result.
var<workgroup> sums: array<vec4<f32>, LANES * QUADS * JOINED>;
var<workgroup> slices: array<f32, LANES * JOINED>;

// Of LANES numbers in `slices`.
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

@compute @workgroup_size(LANES) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_index(wid, nwg);
  if (group >= p.m * PANELS) { return; }
  let m = group / PANELS;
  let panel = group % PANELS;
@DECLARE@
@LOAD_FIRST@
@NORM@
  for (var k0 = 0u; k0 < K; k0 += CHUNK) {
@STAGE@
    workgroupBarrier();
@MULTIPLY@
    if (k0 + CHUNK < K) {
      workgroupBarrier();
@LOAD_NEXT@
    }
  }
@PUT_SUMS@
  workgroupBarrier();
  // Column c of the 16 lies with the lanes whose part has it.
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
  workgroupBarrier();
  store(m, panel * 16u, lane);
}
