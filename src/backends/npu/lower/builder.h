// What an op's NPU lowering is, and how it writes its tile programs. ops/<op>/npu.cc defines
//
//   Status LowerCopy(const Lowering& l, std::vector<Kernel>& kernels) {
//     KernelBuilder k(l);
//     const View x = k.In(0), y = k.Out(0);                      // dims and strides: expressions
//     const uint32_t buffer = k.AddBuffer("x", 65536);
//     k.Loop("row", x.dims[0], [&](Expr row) {
//       k.Item();
//       k.Dispatch();
//       k.Load(x, buffer, x.offset + row * x.strides[0], {{x.dims[1], x.strides[1], k.Int(4)}});
//       k.BarrierLoads();
//       k.Store(y, buffer, y.offset + row * y.strides[0], {{x.dims[1], y.strides[1], k.Int(4)}});
//       k.BarrierTile();
//     });
//     return k.Finish(kernels);
//   }
//   const NpuOp kCopyNpu = {.op = &ops::kCopy, .lower = LowerCopy};
//
// and table.cc has one line for it.
//
// Nothing may be decided by whether an expression happens to be a constant: a program compiled at a static shape must
// give the records of the dynamic one (N9). What depends on sizes is a Select, and folds by itself where it can.
#pragma once

#include <map>
#include <optional>

#include "backends/npu/lower/kernel.h"
#include "plan/locations.h"

namespace liveshape::npu {

// Vector work is done in blocks of 128 KB: on a TPUv3 core blocks of 64 to 128 KB are best, 1 MB costs 14-20 %. Less
// work is cut into smaller blocks, so that moving and computing can overlap.
inline constexpr int64_t kBlockBytes = 128 << 10;
inline constexpr int64_t kTilesWanted = 8;

struct Fusion;  // lower/fuse.h

// One step of the plan.
struct Lowering {
  const ir::Graph& graph;
  const plan::Plan& plan;
  const plan::Step& step;
  const ir::Node* node;  // null: a copy that the planner inserted
  const Target& target;
  const plan::Locations& locations;
  std::string name;  // of its first kernel
  std::map<size_t, const plan::Operand*> instead =
      {};                          // inputs that are read where they came from (absorb.h)
  const Fusion* fusion = nullptr;  // of a product: the steps that its tiles serve too
  Expr when = {};                  // over the graph's symbols; none: it always runs

  bool has(size_t input) const {
    return input < step.inputs.size() && step.inputs[input].storage != plan::kNoStorage;
  }
  const ir::Constant* constant(size_t input) const;  // null: another kind of value
};

// An operand in the table of the kernel; strides and offset in bytes.
struct View {
  uint32_t tensor = 0;
  DType dtype = DType::kF32;
  std::vector<Expr> dims = {}, strides = {};
  Expr offset = {};

  int64_t element() const { return static_cast<int64_t>(SizeOf(dtype)); }
  size_t rank() const { return dims.size(); }
};

// How much of an extent one iteration of a loop covers.
struct Span { Expr start, live; };

class KernelBuilder {
 public:
  explicit KernelBuilder(const Lowering& l, std::string_view suffix = {});

  sym::Table& table() const { return *program_->table; }
  Expr Int(int64_t value) const { return table().Int(value); }
  const Lowering& lowering() const { return l_; }
  // An expression of the graph; what a tile program cannot compute (floats) becomes a shape_arg as a whole.
  Expr Import(Expr graph_expression);
  // Of a pointwise node its dims may be others than the output's, over the same elements in row-major order.
  View In(size_t input) {
    const auto instead = l_.instead.find(input);
    return MakeView(instead == l_.instead.end() ? l_.step.inputs[input] : *instead->second, false);
  }
  View Out(size_t output) { return MakeView(l_.step.outputs[output], true); }
  View In(const plan::Operand& operand) { return MakeView(operand, false); }
  View Out(const plan::Operand& operand) { return MakeView(operand, true); }

  // Of all variants. The rule may read shape_args only.
  void SetVariants(uint32_t count, Expr rule);
  // A number that differs between variants.
  Expr ByVariant(std::span<const int64_t> numbers);
  uint32_t AddBuffer(std::string name, std::vector<int64_t> bytes, uint32_t versions = 2,
                     Turn turn = Turn::kTile);
  uint32_t AddBuffer(std::string name, int64_t bytes, uint32_t versions = 2,
                     Turn turn = Turn::kTile) {
    return AddBuffer(std::move(name), std::vector<int64_t>{bytes}, versions, turn);
  }
  // `of`: whose numbers the values read; none: the step's that is lowered.
  uint32_t AddCode(Code code, ValueFunction value, const plan::Step* of = nullptr);

  Expr Let(std::string_view name, Expr value);
  void Loop(std::string_view name, Expr count, const std::function<void(Expr)>& body);
  // Over `extent` in steps of `tile`, the last of which may be shorter.
  void Tiles(std::string_view name, Expr extent, Expr tile, const std::function<void(Span)>& body);
  void If(Expr condition, const std::function<void()>& body);

  void Item() { Add(Statement::Kind::kItem); }
  void Dispatch() { Add(Statement::Kind::kDispatch); }
  void Load(const View& view, Place to, Expr offset, std::vector<BoxDim> box,
            std::optional<Place> index = {}) {
    Move(false, view, to, offset, std::move(box), index);
  }
  void Store(const View& view, Place from, Expr offset, std::vector<BoxDim> box,
             std::optional<Place> index = {}) {
    Move(true, view, from, offset, std::move(box), index);
  }
  void Compute(uint32_t code, std::vector<Expr> extents, std::vector<Place> operands,
               std::vector<Expr> arguments = {});
  void BarrierLoads() { Add(Statement::Kind::kBarrierLoads); }
  void BarrierTile() { Add(Statement::Kind::kBarrierTile); }
  Place At(uint32_t buffer) const { return {buffer, Int(0)}; }
  Place At(uint32_t buffer, Expr offset) const { return {buffer, offset}; }

  // Fails where the buffers of a variant do not fit the scratchpad.
  Status Finish(std::vector<Kernel>& kernels);

 private:
  View MakeView(const plan::Operand& operand, bool written);
  void Add(Statement::Kind kind) { block_->statements.push_back({.kind = kind}); }
  void Move(bool store, const View& view, Place place, Expr offset, std::vector<BoxDim> box,
            std::optional<Place> index);
  Expr NewSymbol(std::string_view name, sym::Interval range);

  const Lowering& l_;
  Kernel kernel_;
  std::shared_ptr<TileProgram> program_;
  Block* block_;
};

// What an op does to a tile of its input that lies in the scratchpad (epilogue.h). Operands of the record: the result, then
// the node's inputs. Extents and arguments: [rows, columns] of the tile.
struct Stage {
  Code code;
  ValueFunction values;
  // It needs rows as a whole, and its other inputs are vectors along them. Else they have the dims of the tile.
  bool whole_rows = false;
};

// Whether the tiles of an op can go through stages before they are stored.
enum class Stages : uint8_t {
  kNone,
  kElements,  // tiles are boxes of the output
  kRows,      // and their columns are its last dim, whole where that fits (product.h: LongestRow)
};

struct NpuOp {
  const ir::OpDef* op;
  // Once, at load; a refusal (dtype, attribute) is an error that says what is not served.
  Status (*lower)(const Lowering& l, std::vector<Kernel>& kernels);
  Stages stages = Stages::kNone;
  Result<std::optional<Stage>> (*stage)(const Lowering& l) = nullptr;  // none: it cannot be one
};

// table.cc
std::span<const NpuOp* const> AllOps();
const NpuOp* FindOp(const ir::OpDef& op);  // null: it has no lowering

}  // namespace liveshape::npu
