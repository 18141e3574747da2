// Pieces of WGSL that generators share. A shader is a file with marks such as `@LOADS@`, in whose place a generator
// writes lines out: what a loop loads, the next iteration waits for; lines have their loads on the way together.
#pragma once

#include <string>
#include <string_view>

#include "ir/dtype.h"

namespace liveshape::webgpu {

// Every `what` in `text` becomes `by`.
inline void Replace(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// How the entry point of every kernel with 64 invocations begins, and what every entry point is given.
inline constexpr char kSmallEntry[] = "@compute @workgroup_size(64) fn main(";
inline constexpr char kEntryArguments[] =
    "@builtin(workgroup_id) wid: vec3<u32>,\n"
    "    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {\n";

// A shader's text as a part of a larger one: every name that it declares, its params and group_index get `suffix`, and
// its entry point is a function.
std::string AsFunction(std::string text, const std::string& suffix);

// `fn unpack_pair(word) -> vec2<f32>`, `fn pack_pair(a, b) -> u32`: two neighbours of 16 bits.
inline std::string PairFunctions(DType dtype) {
  return dtype == DType::kBF16
             ? R"(fn unpack_pair(w: u32) -> vec2<f32> {
  return vec2<f32>(bitcast<f32>(w << 16u), bitcast<f32>(w & 0xffff0000u));
}
fn pack_pair(a: f32, b: f32) -> u32 { return bf16_bits(a) | (bf16_bits(b) << 16u); }
)"
             : R"(fn unpack_pair(w: u32) -> vec2<f32> { return unpack2x16float(w); }
fn pack_pair(a: f32, b: f32) -> u32 { return pack2x16float(vec2<f32>(a, b)); }
)";
}

// Floats of a dtype that lie in a vector of four words, and the f32 of its halves (16 bits) or of the whole (32).
inline int64_t PerVector(DType dtype) { return 16 / static_cast<int64_t>(SizeOf(dtype)); }
// The vector of f32 expressions element(0), element(1), ...
template <typename F>
std::string VectorOf(DType dtype, F element) {
  std::string text;
  for (int64_t word = 0; word < 4; ++word) {
    text += word ? ", " : "vec4<u32>(";
    text += dtype == DType::kF32
                ? "bitcast<u32>(" + element(word) + ")"
                : "pack_pair(" + element(2 * word) + ", " + element(2 * word + 1) + ")";
  }
  return text + ")";
}
inline std::string Quad(DType dtype, std::string_view vector, int64_t quad) {
  std::string text(vector);
  if (dtype == DType::kF32) return "bitcast<vec4<f32>>(" + text + ")";
  return quad == 0 ? "vec4<f32>(unpack_pair(" + text + ".x), unpack_pair(" + text + ".y))"
                   : "vec4<f32>(unpack_pair(" + text + ".z), unpack_pair(" + text + ".w))";
}

}  // namespace liveshape::webgpu
