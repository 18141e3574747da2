// A row of a rotary embedding a workgroup of 64, where the row is first normalised (webgpu_fuse.cc). Written before this:
//   WIDTH                the row's length, even
//   rotated(i)           which element of the embedding's result element i of what is written is
//   at_norm(j)           which element of the norm's result that is
//   at_source(row)       where a row of the norm's input begins; `source` reads it
//   factor(c), cosine(j), sine(j), rounded(v), put(i, low, high)
var<private> row_start: u32;
var<private> row_scale: f32;

fn normalised(c: u32) -> f32 {
  return rounded(rounded(source(row_start + c) * row_scale) * factor(c));
}

fn turned(j: u32, c: u32) -> f32 {
  let low = c < WIDTH / 2u;
  let other = normalised(select(c - WIDTH / 2u, c + WIDTH / 2u, low));
  return normalised(c) * cosine(j) + select(other, -other, low) * sine(j);
}

@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_index(wid, nwg);
  if (row >= p.rows) { return; }
  let i = row * WIDTH;
  let j = rotated(i);
  row_start = at_source(at_norm(j) / WIDTH);
  var sum = 0.0;
  for (var c = lane; c < WIDTH; c += 64u) {
    let x = source(row_start + c);
    sum += x * x;
  }
  row_scale = 1.0 / sqrt(row_sum(lane, sum) / f32(WIDTH) + epsilon());
  for (var c = 2u * lane; c < WIDTH; c += 128u) { put(i + c, turned(j + c, c), turned(j + c + 1u, c + 1u)); }
}
