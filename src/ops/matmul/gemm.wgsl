// A tile of 32 x 32 a workgroup of 64, 4 x 4 an invocation, 16 deep.
var<workgroup> tile_a: array<f32, 512>;
var<workgroup> tile_b: array<f32, 512>;

@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let across = (p.n + 31u) / 32u;
  let tiles = across * ((p.m + 31u) / 32u);
  let group = group_index(wid, nwg);
  if (group >= tiles * p.batch) { return; }
  let batch = group / tiles;
  let m0 = (group % tiles) / across * 32u;
  let n0 = (group % tiles) % across * 32u;
  let row = lane / 8u * 4u;
  let col = lane % 8u * 4u;
  var sums: array<array<f32, 4>, 4>;
  for (var k0 = 0u; k0 < p.k; k0 += 16u) {
    for (var i = lane; i < 512u; i += 64u) {
      let ka = k0 + i % 16u;
      let m = m0 + i / 16u;
      var a = 0.0;
      if (m < p.m && ka < p.k) { a = left(batch, m, ka); }
      tile_a[i % 16u * 32u + i / 16u] = a;
      let kb = k0 + i / 32u;
      let n = n0 + i % 32u;
      var b = 0.0;
      if (n < p.n && kb < p.k) { b = right(batch, n, kb); }
      tile_b[i] = b;
    }
    workgroupBarrier();
    for (var k = 0u; k < 16u; k++) {
      for (var i = 0u; i < 4u; i++) {
        let a = tile_a[k * 32u + row + i];
        for (var j = 0u; j < 4u; j++) { sums[i][j] += a * tile_b[k * 32u + col + j]; }
      }
    }
    workgroupBarrier();
  }
  for (var i = 0u; i < 4u; i++) {
    for (var j = 0u; j < 4u; j++) {
      let m = m0 + row + i;
      let n = n0 + col + j;
      if (m < p.m && n < p.n) { set_out0((batch * p.m + m) * p.n + n, sums[i][j] + addend(n)); }
    }
  }
}
