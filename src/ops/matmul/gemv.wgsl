// Few rows: 16 columns of one row a workgroup, four slices of k each, so that a panel of weights is read in order.
var<workgroup> slices: array<f32, 64>;

@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let across = (p.n + 15u) / 16u;
  let group = group_index(wid, nwg);
  if (group >= across * p.m * p.batch) { return; }
  let batch = group / (across * p.m);
  let m = group / across % p.m;
  let n = group % across * 16u + lane % 16u;
  var sum = 0.0;
  if (n < p.n) {
    for (var k = lane / 16u; k < p.k; k += 4u) { sum += left(batch, m, k) * right(batch, n, k); }
  }
  slices[lane] = sum;
  workgroupBarrier();
  if (lane < 16u && n < p.n) {
    let total = (slices[lane] + slices[lane + 16u]) + (slices[lane + 32u] + slices[lane + 48u]);
    set_out0((batch * p.m + m) * p.n + n, total + addend(n));
  }
}
