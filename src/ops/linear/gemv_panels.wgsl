// Few rows times a weight in panels of 16: a workgroup has 16 columns of one row, its lanes share K. Constants that
// webgpu_panels.cc writes before this: K, COLUMNS, PANELS, LANES, CHUNK (of K, staged at a time), PARTS (lanes beside
// each other on the 16 columns, QUADS times 4 each), JOINED (products behind one result), and the functions
//   norm_row(m, lane)            what the input is multiplied by, where a norm is folded in
//   stage(m, k0, lane)           a chunk of the input, normalised, into workgroup memory
//   add_products(panel, lane, k0)        adds the chunk's products to what each lane has
//   put_sums(j, lane)            what a lane has of result j, into `partial`
//   store(m, n0, lane)           from columns[j * 16 + n % 16] to the result
// Sums are taken in one fixed order, so equal rows give equal bits wherever they lie.
var<workgroup> partial: array<vec4<f32>, LANES * QUADS>;
var<workgroup> slices: array<f32, LANES>;
var<workgroup> columns: array<f32, 16 * JOINED>;

// Column c of the 16 lies with the lanes whose part has it.
fn reduce_columns(lane: u32, j: u32) {
  put_sums(j, lane);
  workgroupBarrier();
  let column = lane % 16u;
  let quad = column / 4u;
  var sum = 0.0;
  for (var i = lane / 16u; i < LANES / PARTS; i += LANES / 16u) {
    sum += partial[(i * PARTS + quad / QUADS) * QUADS + quad % QUADS][column % 4u];
  }
  slices[lane] = sum;
  workgroupBarrier();
  if (lane < 16u) {
    var total = slices[lane];
    for (var i = 1u; i < LANES / 16u; i++) { total += slices[lane + 16u * i]; }
    columns[j * 16u + lane] = total;
  }
  workgroupBarrier();
}

@compute @workgroup_size(LANES) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_index(wid, nwg);
  if (group >= p.m * PANELS) { return; }
  let m = group / PANELS;
  let panel = group % PANELS;
  norm_row(m, lane);
  for (var k0 = 0u; k0 < K; k0 += CHUNK) {
    workgroupBarrier();
    stage(m, k0, lane);
    workgroupBarrier();
    add_products(panel, lane, k0);
  }
  for (var j = 0u; j < JOINED; j++) { reduce_columns(lane, j); }
  store(m, panel * 16u, lane);
}
