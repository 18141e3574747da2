// The plan: what runs in which order, and where every value lies. Made once, at load, at the maximum of
// every size; at a bind only numbers change.
//
//   plan::Rules rules;                                        // what the backend asks for
//   LS_ASSIGN_OR_RETURN(plan::Plan plan, plan::MakePlan(graph, rules));
//   plan.arena_bytes; plan.lower_bound;                       // how good it is
//   for (const plan::Step& step : plan.steps) ...             // topological order
//   plan.program.Run(0, block);                               // live dims, strides, offsets, parameters
//
// A value is a strided view of a *storage*: an input, a constant, a state, or a slot of the arena. A slot's
// size is the maximum of its size expression over the symbol ranges (`64 - s0` is largest at the minimum),
// its offset is fixed, and live elements are packed from its start, so that a smaller shape touches fewer
// pages (X5). States keep the strides of their capacity: their data outlives a bind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/op.h"
#include "sym/program.h"

namespace liveshape::plan {

using ir::Dims;
using ir::ValueId;
using sym::Expr;

// What an operand must look like for the backend's kernel; otherwise the planner puts a copy before it.
enum class Need : uint8_t {
  kStrided,     // any strides, 0 included: never costs a copy
  kInnerDense,  // the last dim has stride 1 (or extent 1)
  kDense,       // row-major, no gaps
};

struct Rules {
  size_t alignment = 64;                                         // of slots, bytes
  std::function<Need(const ir::Node& node, size_t input)> need;  // empty: kStrided
  std::function<Expr(const ir::Graph& graph, const ir::Node& node)>
      scratch;  // bytes; none: no scratch
  // Steps for which a slot stays as it was after its last read: a backend may run a step that much later, together with
  // one that follows.
  uint32_t linger = 0;
};

enum class Place : uint8_t { kArena, kInput, kConstant, kState };

using StorageId = uint32_t;
inline constexpr StorageId kNoStorage = ~0u;

struct Storage {
  Place place = Place::kArena;
  uint32_t index = 0;  // of the input, constant or state
  DType dtype = DType::kF32;
  bool scratch = false;  // bytes without meaning outside one step
  // Arena only:
  Expr bytes = {};                         // live size
  size_t capacity = 0;                     // its maximum, rounded up to the alignment
  size_t offset = 0;                       // in the arena
  uint32_t first_step = 0, last_step = 0;  // live range, inclusive
  uint32_t bytes_at = 0;                   // slot of the live size in the params block
};

// One operand: a view, by numbers in the params block.
struct Operand {
  StorageId storage = kNoStorage;  // kNoStorage: an optional input that is absent
  DType dtype = DType::kF32;
  uint8_t rank = 0;
  uint32_t dims_at = 0, strides_at = 0, offset_at = 0;  // slots; offset in elements
  ValueId value = ir::kNoValue;                         // for people
};

struct Step {
  uint32_t node =
      ir::Graph::kNoNode;  // index into graph.nodes; kNoNode: a copy the planner inserted
  std::vector<Operand> inputs, outputs;
  uint32_t params_at = 0, param_count = 0;  // the node's expressions, in attribute order
  StorageId scratch = kNoStorage;
  bool in_place = false;
  bool writes_state = false;   // a failure from here on leaves states changed
  sym::Stage stage = 0;        // runs once the shape program of this stage has
  bool commits_state = false;  // a copy at the end, run only if everything before succeeded
};

// A symbol that data gives its value: read from `from` before the first step of the symbol's stage.
struct Birth {
  uint32_t symbol = 0;
  uint32_t node = 0;  // the node that gives it, for people
  Operand from;       // one element
};

struct PlannedOutput {
  Operand operand;         // dense; storage kNoStorage for an integer
  uint32_t scalar_at = 0;  // slot of an integer output
  bool redirectable =
      false;  // may be written straight into the caller's memory: the first of its storage
};

struct Plan {
  std::vector<Storage> storages;
  std::vector<Step> steps;
  std::vector<Birth> births;             // by stage
  std::vector<PlannedOutput> outputs;    // as graph.outputs
  std::vector<StorageId> input_storage;  // kNoStorage for integers and unused inputs
  std::vector<StorageId> state_storage;
  std::vector<StorageId> constant_storage;
  sym::ShapeProgram program;
  std::vector<uint32_t> host_value_element_at;  // slot of HostValue::element
  size_t arena_bytes = 0;
  size_t lower_bound = 0;  // max over time of the sum of live slots
  size_t copies = 0;       // steps the planner inserted
};

Result<Plan> MakePlan(const ir::Graph& graph, const Rules& rules);

}  // namespace liveshape::plan
