// Many rows times a weight in panels of 16: a tile of TILE_M x TILE_N a workgroup, 8 x 4 an invocation, 16 deep,
// through workgroup memory. What the next 16 need is on its way from memory while these are multiplied. Written out by
// webgpu_panels.cc, since nobody unrolls a loop whose bound is checked: K, COLUMNS, PANELS (of the weight) and, in the
// place of a line each,
//   FETCH(k)     what this invocation brings of both tiles, from row k of K on, into variables of its own
//   PUT          from there into tile_a and tile_b
//   MULTIPLY     16 steps
var<workgroup> tile_a: array<vec4<f32>, TILE_M * 4>;
var<workgroup> tile_b: array<vec4<f32>, TILE_N * 4>;

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
  let row = lane / (TILE_N / 4u);
  let col = lane % (TILE_N / 4u);
  var s0 = vec4<f32>(0.0);
  var s1 = vec4<f32>(0.0);
  var s2 = vec4<f32>(0.0);
  var s3 = vec4<f32>(0.0);
  var s4 = vec4<f32>(0.0);
  var s5 = vec4<f32>(0.0);
  var s6 = vec4<f32>(0.0);
  var s7 = vec4<f32>(0.0);
  FETCH(0u)
  for (var k0 = 0u; k0 < K; k0 += 16u) {
    PUT
    workgroupBarrier();
    let next = min(k0 + 16u, (K - 1u) / 16u * 16u);
    FETCH(next)
    MULTIPLY
    workgroupBarrier();
  }
  let m = m0 + row * 8u;
  let n = n0 + col * 4u;
  put_row(m, n, s0);
  put_row(m + 1u, n, s1);
  put_row(m + 2u, n, s2);
  put_row(m + 3u, n, s3);
  put_row(m + 4u, n, s4);
  put_row(m + 5u, n, s5);
  put_row(m + 6u, n, s6);
  put_row(m + 7u, n, s7);
}
