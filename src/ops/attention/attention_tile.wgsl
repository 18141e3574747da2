// 64 rows of queries of one head a workgroup of 128, keys in blocks of 32 through workgroup memory, softmax online.
//   scores    a lane has 4 rows by 4 keys; CHUNK of the depth is staged at a time, the next is on its way meanwhile
//   softmax   a lane has half of a row
//   result    a lane has 2 x 4 rows by QUADS x 4 columns; SPAN keys of the values are staged at a time
// webgpu_tile.cc writes what stands between @s.
var<workgroup> staged: array<vec4<f32>, STAGED>;
var<workgroup> weights: array<vec4<f32>, KEYS * 16u>;  // by key, then by row
var<workgroup> halves: array<f32, 128>;
var<workgroup> row_numbers: array<vec4<f32>, 16>;  // by row: how much the sums shrink, and at the end the totals
var<workgroup> seen: array<u32, 128>;
var<workgroup> tile_keys: u32;

@compute @workgroup_size(128) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let tiles = (p.rows + 63u) / 64u;
  let group = group_index(wid, nwg);
  if (group >= p.batch * p.heads * tiles) { return; }
  // The last rows see the most keys: begun first, they do not wait at the end.
  let s0 = (tiles - 1u - group / (p.batch * p.heads)) * 64u;
  let h = group % p.heads;
  let b = group / p.heads % p.batch;
  let g = h / (p.heads / p.groups);
  let row = lane % 64u;
  let half = lane / 64u;
  let s = min(s0 + row, p.rows - 1u);
  let row_keys = visible(b, h, s);
  seen[lane] = row_keys;
  workgroupBarrier();
  if (lane == 0u) {
    var most_keys = 0u;
    for (var i = 0u; i < 64u; i++) { most_keys = max(most_keys, seen[i]); }
    tile_keys = most_keys;
  }
  let keys = workgroupUniformLoad(&tile_keys);

  var most = LEAST;
  var total = 0.0;
@DECLARE@
  if (keys > 0u) {
@FETCH_FIRST@
  }
  for (var t0 = 0u; t0 < keys; t0 += KEYS) {
@SCORES@
    workgroupBarrier();
    var row_most = most;
@MASK@
    halves[lane] = row_most;
    workgroupBarrier();
    row_most = max(row_most, halves[lane ^ 64u]);
    let shrink = select(exp(most - row_most), 0.0, total == 0.0);
    most = row_most;
    var sum = 0.0;
@SOFTEN@
    if (half == 0u) { row_numbers[row / 4u][row % 4u] = shrink; }
    workgroupBarrier();
    halves[lane] = sum;
    let low = row_numbers[lane / 16u];
    let high = row_numbers[8u + lane / 16u];
@MIX@
    workgroupBarrier();
    total = total * shrink + halves[row] + halves[row + 64u];
  }
  if (half == 0u) { row_numbers[row / 4u][row % 4u] = total; }
  workgroupBarrier();
@STORE@
}
