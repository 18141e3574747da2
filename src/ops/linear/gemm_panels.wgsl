// Many rows times a weight in panels of 16: a tile of TILE_M x TILE_N a workgroup, 8 x 4 an invocation, 16 deep,
// through workgroup memory. webgpu_panels.cc writes K, COLUMNS, PANELS (of the weight) and
//   load_left(m, k) -> vec2<f32>                            two neighbours of a row of the input
//   load_right(panel, k0, lane)                             fills tile_b with 16 rows of K
var<workgroup> tile_a: array<vec4<f32>, TILE_M * 4>;
var<workgroup> tile_b: array<vec4<f32>, TILE_N * 4>;
const THREADS = TILE_M * TILE_N / 32u;

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
  for (var k0 = 0u; k0 < K; k0 += 16u) {
    for (var i = lane; i < TILE_M * 8u; i += THREADS) {
      let k = i % 8u * 2u;
      let m = i / 8u;
      var a = vec2<f32>(0.0);
      if (m0 + m < p.m && k0 + k < K) { a = load_left(m0 + m, k0 + k); }
      tile_a[(k * TILE_M + m) / 4u][m % 4u] = a.x;
      tile_a[((k + 1u) * TILE_M + m) / 4u][m % 4u] = a.y;
    }
    load_right(n0 / 16u, k0, lane);
    workgroupBarrier();
    for (var k = 0u; k < 16u; k++) {
      let a = tile_a[k * (TILE_M / 4u) + row * 2u];
      let c = tile_a[k * (TILE_M / 4u) + row * 2u + 1u];
      let b = tile_b[k * (TILE_N / 4u) + col];
      s0 += a.x * b;
      s1 += a.y * b;
      s2 += a.z * b;
      s3 += a.w * b;
      s4 += c.x * b;
      s5 += c.y * b;
      s6 += c.z * b;
      s7 += c.w * b;
    }
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
