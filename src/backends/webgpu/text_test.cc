#include "backends/webgpu/text.h"

#include <gtest/gtest.h>

namespace liveshape::webgpu {
namespace {

TEST(Text, APartOfAShaderKeepsItsNamesToItself) {
  const std::string text = R"(const WIDTH = 4u;
var<private> row: u32;
fn value(i: u32) -> f32 { return in0(i) * p.scale; }  // value of WIDTH
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  row = group_index(wid, nwg);
  let v = vec2<f32>(value(row), 1.0);
  if (v.x < f32(WIDTH)) { set_out0(row, v.y); }
}
)";
  EXPECT_EQ(AsFunction(text, "_1"), R"(const WIDTH_1 = 4u;
var<private> row_1: u32;
fn value_1(i: u32) -> f32 { return in0(i) * p.scale_1; }  // value of WIDTH
fn main_1(wid: vec3<u32>, nwg: vec3<u32>, lane: u32) {
  row_1 = group_index_1(wid, nwg);
  let v = vec2<f32>(value_1(row_1), 1.0);
  if (v.x < f32(WIDTH_1)) { set_out0(row_1, v.y); }
}
)");
}

TEST(Text, ReplacesEveryMark) {
  std::string text = "@A@ b @A@";
  Replace(text, "@A@", "a@A@");  // what was put in is not looked at again
  EXPECT_EQ(text, "a@A@ b a@A@");
}

}  // namespace
}  // namespace liveshape::webgpu
