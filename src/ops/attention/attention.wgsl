// One row of queries a workgroup, keys in blocks of KEYS, softmax online, so that no row of scores is kept. PARTS lanes
// have a part of a key each, COLUMNS lanes a part of a value each; all that a lane reads of a block is on its way before
// it waits for any of it. The context may be split over workgroups, which leave their sums for attention_merge.wgsl.
// webgpu_row.cc writes what stands between @s.
var<workgroup> query: array<vec4<f32>, QUERY_VECTORS * QUADS>;
var<workgroup> products: array<f32, KEYS * (PARTS + 1u)>;
var<workgroup> scores: array<vec4<f32>, KEYS / 4u>;
var<workgroup> mixed: array<vec4<f32>, LANES * QUADS>;
var<workgroup> totals: array<f32, LANES>;

@compute @workgroup_size(LANES) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_index(wid, nwg);
  if (group >= p.batch * p.heads * p.rows * p.splits) { return; }
  let row = group / p.splits;
  let split = group % p.splits;
  let s = row % p.rows;
  let h = row / p.rows % p.heads;
  let b = row / p.rows / p.heads;
  let g = h / (p.heads / p.groups);
  let query_begin = query_row(b, h, s);
  for (var i = lane; i < QUERY_VECTORS; i += LANES) {
    let w = query_vector(query_begin, i);
@QUERY@
  }
@SEEN@
  let first = split * p.split_keys;
  let keys = min(visible_keys, first + p.split_keys);

  let part = lane % PARTS;
  let key = lane / PARTS;
  let column = lane % COLUMNS;
  let slice = min(lane / COLUMNS, SLICES - 1u);
  var most = LEAST;
  var total = 0.0;
@SUMS@
  for (var t0 = first; t0 < keys; t0 += KEYS) {
@LOADS@
    workgroupBarrier();
@PARTIALS@
    workgroupBarrier();
    if (lane < KEYS) {
      let t = t0 + lane;
      var score = LEAST;
      if (t < keys) { score = masked(b, h, s, t, @SCORE@); }
      scores[lane / 4u][lane % 4u] = score;
    }
    workgroupBarrier();
    var block_most = vec4<f32>(most);
@MOST@
    let before = most;
    most = max(max(block_most.x, block_most.y), max(block_most.z, block_most.w));
    let shrink = select(exp(before - most), 0.0, total == 0.0);
    total *= shrink;
@SHRINK@
@WEIGHTS@
  }
  if (lane < SLICES * COLUMNS) {
@PUT@
    if (column == 0u) { totals[slice] = total; }
  }
  workgroupBarrier();
  let all = @TOTAL@;
  for (var e = 2u * lane; e < WIDTH; e += 2u * LANES) {
    var sum = vec2<f32>(0.0);
    for (var i = 0u; i < SLICES; i++) {
      let quad = mixed[i * COLUMNS * QUADS + e / 4u];
      sum += select(quad.xy, quad.zw, e % 4u == 2u);
    }
    put_pair(b, h, s, g, e, group, sum, all, most);
  }
}
