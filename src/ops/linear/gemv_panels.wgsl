// Few rows times a weight in panels of 16: a workgroup has 16 columns of one row (of each of JOINED products), its lanes
// share K. Everything that a lane reads of a chunk of K is on its way before it waits for any of it: weights, the row, the
// norm's factors. Sums are taken in one fixed order, so equal rows give equal bits wherever they lie.
// webgpu_gemv.cc writes what stands between @s; gemv_memory.wgsl or gemv_subgroups.wgsl how lanes add what they have;
// `store(m, n0, lane)` takes columns[j * 16 + n % 16] to the result.
@compute @workgroup_size(LANES) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @LANE@
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
  reduce_columns(lane);
  workgroupBarrier();
  store(m, panel * 16u, lane);
}
