// An output element an invocation: with one channel a group there is nothing to share between them.
fn value(i: u32) -> f32 {
  let column = i % p.out_d3;
  let row = i / p.out_d3 % p.out_d2;
  let channel = i / (p.out_d3 * p.out_d2) % p.out_d1;
  let image = i / (p.out_d3 * p.out_d2 * p.out_d1);
  let first = p.x_offset + image * p.x_s0 + channel / p.group_rows * p.group_channels * p.x_s1;
  var sum = 0.0;
  for (var c = 0u; c < p.group_channels; c++) {
    for (var a = 0u; a < p.size_h; a++) {
      let y = row * p.stride_h + a * p.dilation_h - p.before_h;
      if (y >= p.x_d2) { continue; }
      let line = first + c * p.x_s1 + y * p.x_s2;
      for (var b = 0u; b < p.size_w; b++) {
        let x = column * p.stride_w + b * p.dilation_w - p.before_w;
        if (x >= p.x_d3) { continue; }
        sum += in0(line + x * p.x_s3) * weight(channel, (c * p.size_h + a) * p.size_w + b);
      }
    }
  }
  return sum + bias(channel);
}
