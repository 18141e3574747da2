// What a WebGPU kernel is: for a step of the plan, the dispatches that do it. ops/<op>/webgpu.cc defines one as
//
//   Result<std::vector<Dispatch>> Lower(const Lowering& l) {
//     Dispatch d;                                          // WGSL, written against the names that follow
//     d.body = wgsl::kSoftmax;                             // ops/softmax/softmax.wgsl, embedded at build
//     d.params = {{"rows", rows}, {"width", width}};       // expressions: the shader reads p.rows, p.width (u32)
//     d.groups = rows;                                     // workgroups at the live shape: an expression too
//     return std::vector{std::move(d)};
//   }
//   const WebGpuKernel kSoftmaxKernel = {.op = &ops::kSoftmax, .lower = Lower, .need = NeedDense};
//
// and table.cc has one line for it. This one function serves load and every bind (W4): what it returns is
// symbolic, a bind evaluates it. A shader reads input k through `in0(i)`, `in1(i)`, ... by element of its storage
// and writes through `set_out0(i, value)`; values are f32, i32, vec2<u32> (i64 as lo, hi) or bool. Which binding
// stands behind a name, and how bytes are packed in words, is the business of shader.cc; elements smaller than a word
// cost two atomics each when written so, which is why MakeMap writes whole words. A shader that finds bad data (an index
// out of range) calls `fail()`: the run then fails, naming the node and the cause that CanFail gave.
//
// Groups are counted in one dimension and folded where they exceed the device's limit (W10); a shader gets its
// own number from `group_index(wid, nwg)`. A dispatch whose `groups` is 0 at a live shape is left out, which is
// how routes are chosen: Select(m <= 8, ..., 0).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/webgpu/device/device.h"
#include "base/status.h"
#include "ir/op.h"
#include "plan/locations.h"

namespace liveshape::webgpu {

using sym::Expr;

// A number that a shader reads as p.<name>.
struct Param {
  enum class Kind : uint8_t {
    kWord,   // u32; negative numbers wrap
    kWide,   // i64 as vec2<u32>
    kFloat,  // of a float expression
  };
  std::string name;
  Expr expr = {};     // evaluated by the backend's shape program, or
  uint32_t slot = 0;  // where `expr` is none: read from the plan's params block
  Kind kind = Kind::kWord;
};

struct Dispatch {
  std::string body;
  std::vector<Param> params = {};
  Expr groups = {};
  std::string failure = {};  // what fail() means; empty: the body does not call it. See CanFail
};

// Sizes that depend on the GPU, not on the model: chosen for speed only. LIVESHAPE_WEBGPU_TUNING sets them
// ("gemv_lanes=256,few_rows=4"), for benchmarks that look for better ones. Measured by bench/webgpu_bench.py.
struct Tuning {
  int64_t few_rows = 8;      // up to which a product is a GEMV of each row
  int64_t gemv_lanes = 512;  // a workgroup, as far as its memory allows
  int64_t tile_m = 64, tile_n = 64, tile_columns = 4, tile_depth = 32, tile_splits = 2;
  int64_t big_tile_m = 128, big_tile_n = 64, big_tile_columns = 8, big_tile_depth = 16;
  int64_t big_tile_groups =
      264;  // from which the big tile pays: two a multiprocessor of a large GPU
  int64_t small_tile_groups = 64;  // below which tiles of half the rows do
  int64_t fuse = 1;                // 0: every step is its own dispatch
  int64_t subgroups = 1;           // 0: not used, though the device has them
  int64_t whole_keys = 128;        // of a context up to which attention does not split it
};
Tuning ReadTuning(const char* text);  // null: as above

// One step, as a kernel sees it at load.
struct Lowering {
  const ir::Graph& graph;
  const plan::Plan& plan;
  const plan::Step& step;
  const ir::Node* node;  // null: a copy that the planner inserted
  const gpu::Limits& limits;
  const gpu::Features& features;
  const Tuning& tuning;
  const plan::Locations& locations;

  sym::Table& table() const { return graph.table(); }
  bool has(size_t input) const {
    return input < step.inputs.size() && step.inputs[input].storage != plan::kNoStorage;
  }
  const plan::Operand& in(size_t i) const { return step.inputs[i]; }
  const plan::Operand& out(size_t i) const { return step.outputs[i]; }
  const ir::Dims& in_dims(size_t i) const { return graph.type(in(i).value).dims; }
  const ir::Dims& out_dims(size_t i) const { return graph.type(out(i).value).dims; }
  Expr numel(const ir::Dims& dims) const { return sym::Product(graph.table(), dims); }
  const ir::Constant* constant(size_t input) const;  // null: another kind of value
};

// Whether every row of an operand (its last dim) begins at a multiple of `elements`, without gaps between its own: then
// it is read by vectors. At every live shape, or it does not count.
bool HasAlignedRows(const Lowering& l, const plan::Operand& operand, int64_t elements);

// p.<name>_offset, p.<name>_d<k> and p.<name>_s<k>: where an operand lies, for kernels that walk its dims themselves.
void AddStrides(const plan::Operand& operand, const std::string& name, Dispatch& d);

// `fn at_<name>(i: u32) -> u32`: where element i, in row-major order, of a strided operand lies in its storage;
// its numbers become params of `d`.
void AddStridedIndex(const Lowering& l, const plan::Operand& operand, const std::string& name,
                     Dispatch& d);

// A kernel whose every output element is a function of its index: `body` has `fn value(i: u32) -> T`; this adds
// `main`, packs what is smaller than a word, and counts the groups.
Dispatch MakeMap(const Lowering& l, std::string body, std::vector<Param> params = {});

// Input 0, of any strides, into the dense output.
Dispatch MakeCopy(const Lowering& l);

// The body of `d` may call fail(), where it finds what `cause` says.
void CanFail(const Lowering& l, Dispatch& d, std::string cause);

// The WGSL type of values of a dtype; none: WGSL cannot hold it (f64).
const char* ValueType(DType dtype);
inline Status NoSuchType(DType dtype) {
  return Unsupported("{} on WebGPU, which has no such type", Name(dtype));
}

// For kernels that write single words.
inline Status NeedF32(const Lowering& l) {
  if (l.out(0).dtype == DType::kF32) return {};
  return Unsupported("{} of {} on WebGPU: only f32 is served", l.node->op->name,
                     Name(l.out(0).dtype));
}

// One set of dispatches for several steps: a norm, the product that reads it and what is computed of that. Where
// `when` holds at a live shape it runs in place of them all, at the place of the last; elsewhere they run as they were,
// so everything that they need is still planned.
struct Fusion {
  std::vector<const plan::Step*> steps = {};  // in order; the last one's outputs are the fusion's
  const plan::Step* owner = nullptr;          // whose kernel it is; set by the backend
  Expr when = {};                             // none: always
  std::shared_ptr<plan::Step> step = {};      // the operands, as `dispatches` name them
  std::vector<Dispatch> dispatches = {};
};

struct WebGpuKernel {
  const ir::OpDef* op;
  // Once, at load; a refusal (dtype, attribute) is an error that says what is not served (W9).
  Result<std::vector<Dispatch>> (*lower)(const Lowering& lowering);
  plan::Need (*need)(const ir::Node& node, size_t input) = nullptr;  // default kStrided
  // Bytes that scratch(i) and scratch_word(i) see, f32 and u32.
  Expr (*scratch)(const ir::Graph& graph, const ir::Node& node) = nullptr;
  // What this step could do together with its neighbours; whether it is safe is for fuse.h to say.
  Result<std::optional<Fusion>> (*fuse)(const Lowering& lowering) = nullptr;
};

plan::Need NeedDense(const ir::Node& node, size_t input);

// table.cc
std::span<const WebGpuKernel* const> AllKernels();

}  // namespace liveshape::webgpu
