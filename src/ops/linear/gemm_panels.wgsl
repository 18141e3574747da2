// Many rows times a weight in panels of 16: a tile of TILE_M x TILE_N a workgroup, DEPTH of K at a time through workgroup
// memory. An invocation has rows from row * 4 and from TILE_M / 2 + row * 4 on, four each, and one or two fours of columns,
// so that lanes read beside each other. What comes next is on its way from memory while this is multiplied.
// webgpu_gemm.cc writes what stands between @s.
var<workgroup> tile_a: array<vec4<f32>, TILE_M / 4u * DEPTH>;
var<workgroup> tile_b: array<vec4<f32>, PITCH_B * DEPTH>;

fn put_row(m: u32, n: u32, sums: vec4<f32>) {
  if (m >= p.m) { return; }
  if (n < COLUMNS) { store_pair(m, n, sums.xy); }
  if (n + 2u < COLUMNS) { store_pair(m, n + 2u, sums.zw); }
}

@compute @workgroup_size(THREADS) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let across = (COLUMNS + TILE_N - 1u) / TILE_N;
  let group = group_index(wid, nwg);
  if (group >= across * ((p.m + TILE_M - 1u) / TILE_M)) { return; }
  let m0 = group / across * TILE_M;
  let n0 = group % across * TILE_N;
  let team = lane / TEAM;
  let row = lane % TEAM / LANES_ACROSS;
  let col = lane % LANES_ACROSS;
  let left_at_team = team * TEAM_DEPTH * (TILE_M / 4u) + row;
  let right_at_team = team * TEAM_DEPTH * PITCH_B + col;
@DECLARE@
@FETCH_FIRST@
  for (var k0 = 0u; k0 < K; k0 += DEPTH) {
@PUT@
    workgroupBarrier();
    let next = min(k0 + DEPTH, (K - 1u) / DEPTH * DEPTH);
@FETCH_NEXT@
@MULTIPLY@
    workgroupBarrier();
  }
@STORE@
}
