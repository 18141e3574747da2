// What lowering a planned graph gives: kernels in the order in which they run, each with its tile program. The
// simulator and the value executor walk the very same programs (N2, N4).
//
//   LS_ASSIGN_OR_RETURN(npu::Model model, npu::Lower(graph, plan, {.scratchpad_bytes = 16 << 20}));
//   for (const npu::Kernel& kernel : model.kernels) {
//     LS_ASSIGN_OR_RETURN(auto args, npu::ShapeArgs(kernel, symbol_values));     // at a live shape
//     npu::Walk(kernel, args, sink);                                             // records, streamed
//   }
//
// The plan must have been made with npu::PlanRules(). Programs hold no timing; Target says what must fit, and by it the
// rule for tile sizes chooses.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/npu/cost/code.h"
#include "backends/npu/lower/tile_program.h"
#include "base/status.h"
#include "ir/graph.h"
#include "liveshape/trace.h"
#include "plan/plan.h"

namespace liveshape::npu {

struct Target {
  int64_t scratchpad_bytes = 16 << 20;
  int array_rows = 128, array_cols = 128, arrays = 2;
  int lanes = 128;
  int64_t forced_tile =
      0;  // elements of a pointwise tile, rows and columns of a matmul's; 0: the rule decides
};

// An argument of a kernel: a storage of the plan. Two views of one storage are one tensor.
struct Tensor {
  plan::StorageId storage = plan::kNoStorage;
  std::string name;  // of the value it was first seen as: for people
  Expr bytes = {};   // at the live shape, over the graph's symbols
  bool read = false, written = false;
};

// When a buffer moves on to its next version.
enum class Turn : uint8_t { kTile, kItem };

struct Buffer {
  std::string name;
  std::vector<int64_t> bytes;  // of one version, by variant
  uint32_t versions = 1;
  Turn turn = Turn::kTile;
};

// What a code computes, over bytes of the scratchpad. `params` are its node's numbers at the live shape
// (plan::Step::params_at).
struct ValueCall {
  const ls_trace_compute& record;
  std::byte* const* operand;  // as record.operand
  std::span<const int64_t> params;

  template <typename T>
  T* as(size_t i) const {
    return reinterpret_cast<T*>(operand[i]);
  }
};
using ValueFunction = std::function<Status(const ValueCall& call)>;

struct Schedule;  // lower/schedule.h

struct Kernel {
  std::string name;  // "k3_linear"
  // Of the plan, at whose place it runs. A step may take several kernels; a kernel may serve several steps (fuse.h), and
  // runs at the last of them.
  uint32_t step = 0;
  std::vector<Expr>
      shape_args;  // over the graph's symbols; their live values are what the walk is given
  std::vector<Tensor> tensors;
  std::vector<Code> codes;
  std::vector<ValueFunction> values;  // by code
  std::vector<uint32_t> value_steps;  // by code: whose params its values read
  std::vector<Buffer> buffers;
  uint32_t variants = 1;
  std::shared_ptr<const TileProgram> program;
  std::shared_ptr<const Schedule> schedule;  // the same, ready to walk
};

struct Model { std::vector<Kernel> kernels; };

// What the planner must know: nothing is copied for the sake of an NPU, whose DMA takes any strides.
plan::Rules PlanRules();

// A node without a tile lowering is refused by name (N10); so is a tile that cannot fit the scratchpad.
Result<Model> Lower(const ir::Graph& graph, const plan::Plan& plan, const Target& target);

// symbol_values as in plan.program: a live shape's block begins with them.
Result<std::vector<int64_t>> ShapeArgs(const Kernel& kernel,
                                       std::span<const int64_t> symbol_values);

// Walks the tile program without a compiler: the records that the kernel's entry in a producer library emits, byte for
// byte. Returns as ls_trace_walk_fn does.
int Walk(const Kernel& kernel, std::span<const int64_t> shape_args, const ls_trace_sink& sink);

}  // namespace liveshape::npu
