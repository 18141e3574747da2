// Indices are sorted, in two halves of the scratch that take turns; keys are read where they lie. A record is (key,
// index) and no two are equal, so every element finds its one place by counting the records before its own.

fn record_less(a_key: vec2<u32>, a: u32, b_key: vec2<u32>, b: u32) -> bool {
  if (!i64_eq(a_key, b_key)) { return i64_less_unsigned(a_key, b_key); }
  return a < b;
}

// Runs of p.width: each element counts within its own.
fn count_in_run(line: u32, k: u32) {
  let begin = k / p.width * p.width;
  let end = min(begin + p.width, p.length);
  let mine = key(line, k);
  var place = begin;
  for (var j = begin; j < end; j++) {
    if (record_less(key(line, j), j, mine, k)) { place++; }
  }
  set_scratch_word(p.to + line * p.length + place, k);
}

// Pairs of sorted runs of p.width: each element counts in the other one, by bisection.
fn merge_runs(line: u32, at: u32) {
  let base = p.from_half + line * p.length;
  let index = scratch_word(base + at);
  let mine = key(line, index);
  let begin = at / p.width * p.width;
  let left = at / p.width % 2u == 0u;
  let other = select(begin - p.width, begin + p.width, left);
  var low = min(other, p.length);
  let first = low;
  var high = min(other + p.width, p.length);
  while (low < high) {
    let middle = (low + high) / 2u;
    let candidate = scratch_word(base + middle);
    if (record_less(key(line, candidate), candidate, mine, index)) { low = middle + 1u; } else { high = middle; }
  }
  set_scratch_word(p.to + line * p.length + min(begin, other) + (at - begin) + (low - first), index);
}
