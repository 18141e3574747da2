// From expressions to a shape program.
#include <algorithm>
#include <map>

#include "sym/may_fail.h"
#include "sym/program.h"
#include "sym/program_ops.h"

namespace liveshape::sym {
namespace {

// Deeper nests of selects are evaluated on both sides; a limit for hostile input, no model comes
// near.
constexpr int kMaxLazyDepth = 64;

bool IsLazy(Kind kind) { return kind == Kind::kSelect || kind == Kind::kAnd || kind == Kind::kOr; }

}  // namespace

struct ProgramBuilder::Impl {
  using Op = ShapeProgram::Op;
  using Instruction = ShapeProgram::Instruction;
  using Slots = std::unordered_map<const Node*, uint32_t>;

  explicit Impl(Table& table) : table(table) {
    for (const SymbolInfo& info : table.symbols()) {
      program.symbols_.push_back({info.name, info.display, info.lo, info.hi, info.stage});
      if (info.stage >= sections.size()) sections.resize(info.stage + 1);
    }
    next_slot = static_cast<uint32_t>(table.symbols().size());
    scopes.emplace_back();
  }

  uint32_t NewSlot(const Node* node) {
    names.resize(next_slot + 1);
    if (node) names[next_slot] = Abbreviated(node->expr());
    return next_slot++;
  }

  std::vector<Instruction>& Section(Stage stage) {
    if (stage >= sections.size()) sections.resize(stage + 1);
    return sections[stage];
  }

  // Inside a side that is evaluated only when chosen, everything goes to the section of the whole
  // expression: a part known at an earlier stage must not fail there.
  Stage StageFor(const Node& node) const { return scopes.size() > 1 ? lazy_stage : node.stage; }

  uint32_t Emit(Stage stage, Op op, uint32_t out, uint32_t a, uint32_t b, uint32_t c = 0) {
    Section(stage).push_back({op, out, a, b, c});
    return out;
  }

  const uint32_t* Find(const Node* node) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      if (auto it = scope->find(node); it != scope->end()) return &it->second;
    }
    return nullptr;
  }

  bool MayFail(const Node* node);
  bool EvaluatesLazily(const Node& node);
  std::vector<const Node*> Pending(const Node* root);
  uint32_t Compile(Expr e, std::optional<uint32_t> wanted = {});
  uint32_t CompileNode(const Node& node, std::optional<uint32_t> wanted);
  uint32_t CompileStrict(const Node& node, uint32_t out);
  uint32_t CompileSelect(const Node& node, uint32_t out);
  uint32_t CompileAndOr(const Node& node, uint32_t out);

  // Runs `body` with a scope of its own: what it computes is not computed on other paths.
  template <typename Body>
  void Lazily(Stage stage, Body&& body) {
    const Stage outer = lazy_stage;
    if (scopes.size() == 1) lazy_stage = stage;
    scopes.emplace_back();
    body();
    scopes.pop_back();
    lazy_stage = outer;
  }

  // A jump whose target is set once known.
  size_t EmitJump(Stage stage, Op op, uint32_t condition) {
    Emit(stage, op, 0, condition, 0);
    return Section(stage).size() - 1;
  }
  void LandHere(Stage stage, size_t jump) {
    Section(stage)[jump].c = static_cast<uint32_t>(Section(stage).size());
  }

  Table& table;
  ShapeProgram program;
  std::vector<std::vector<Instruction>> sections = std::vector<std::vector<Instruction>>(1);
  std::vector<Slots> scopes;  // [0]: computed on every path
  Stage lazy_stage = 0;
  std::unordered_map<const Node*, bool> may_fail;
  std::map<std::vector<uint32_t>, uint32_t> tuples;
  std::vector<std::string> names;
  uint32_t next_slot = 0;
};

bool ProgramBuilder::Impl::MayFail(const Node* root) {
  if (auto it = may_fail.find(root); it != may_fail.end()) return it->second;
  for (const Node* node : TopologicalOrder(root->expr())) {
    if (may_fail.contains(node)) continue;
    may_fail[node] = OwnStepMayFail(*node) || std::ranges::any_of(node->args, [&](Expr arg) {
                       return may_fail.at(arg.node());
                     });
  }
  return may_fail.at(root);
}

// Sides that cannot fail, or are known anyway, are simply computed.
bool ProgramBuilder::Impl::EvaluatesLazily(const Node& node) {
  if (!IsLazy(node.kind) || scopes.size() > kMaxLazyDepth) return false;
  return std::ranges::any_of(std::span(node.args).subspan(1),
                             [&](Expr side) { return !Find(side.node()) && MayFail(side.node()); });
}

// The nodes to compute for `root`, arguments first; not those that only a chosen side needs.
std::vector<const Node*> ProgramBuilder::Impl::Pending(const Node* root) {
  std::vector<const Node*> found = {root};
  std::unordered_map<const Node*, bool> seen = {{root, true}};
  for (size_t i = 0; i < found.size(); ++i) {
    const std::span<const Expr> args = found[i]->args;
    for (Expr arg : EvaluatesLazily(*found[i]) ? args.first(1) : args) {
      if (!Find(arg.node()) && seen.emplace(arg.node(), true).second) found.push_back(arg.node());
    }
  }
  std::ranges::sort(found, {}, &Node::id);
  return found;
}

uint32_t ProgramBuilder::Impl::Compile(Expr e, std::optional<uint32_t> wanted) {
  if (const uint32_t* slot = Find(e.node())) return *slot;
  uint32_t slot = 0;
  for (const Node* node : Pending(e.node())) {
    if (const uint32_t* known = Find(node))
      slot = *known;
    else
      slot = CompileNode(*node, node == e.node() ? wanted : std::nullopt);
  }
  return slot;
}

uint32_t ProgramBuilder::Impl::CompileNode(const Node& node, std::optional<uint32_t> wanted) {
  if (node.kind == Kind::kSymbol) {
    LS_CHECK(static_cast<size_t>(node.bits) < program.symbols_.size());
    return scopes[0][&node] = static_cast<uint32_t>(node.bits);
  }
  const uint32_t out = wanted ? *wanted : NewSlot(&node);
  if (node.kind == Kind::kInt || node.kind == Kind::kFloat) {
    program.constants_.emplace_back(out, node.bits);
    return scopes[0][&node] = out;
  }
  // Pending left out the sides of a lazy node; meanwhile some may have been computed for another
  // user.
  if (IsLazy(node.kind) &&
      !std::ranges::all_of(node.args, [&](Expr arg) { return Find(arg.node()); })) {
    node.kind == Kind::kSelect ? CompileSelect(node, out) : CompileAndOr(node, out);
  } else {
    CompileStrict(node, out);
  }
  return scopes.back()[&node] = out;
}

uint32_t ProgramBuilder::Impl::CompileStrict(const Node& node, uint32_t out) {
  static constexpr struct {
    Kind kind;
    Op op, float_op;
  } kOps[] = {
      {Kind::kAdd, Op::kAdd, Op::kMove},
      {Kind::kMul, Op::kMul, Op::kMove},
      {Kind::kPow, Op::kPow, Op::kMove},
      {Kind::kFloorDiv, Op::kFloorDiv, Op::kMove},
      {Kind::kCeilDiv, Op::kCeilDiv, Op::kMove},
      {Kind::kMod, Op::kMod, Op::kMove},
      {Kind::kMin, Op::kMin, Op::kMove},
      {Kind::kMax, Op::kMax, Op::kMove},
      {Kind::kEq, Op::kEq, Op::kFloatEq},
      {Kind::kNe, Op::kNe, Op::kFloatNe},
      {Kind::kLt, Op::kLt, Op::kFloatLt},
      {Kind::kLe, Op::kLe, Op::kFloatLe},
      {Kind::kAnd, Op::kAnd, Op::kMove},
      {Kind::kOr, Op::kOr, Op::kMove},
      {Kind::kNot, Op::kNot, Op::kMove},
      {Kind::kBitAnd, Op::kBitAnd, Op::kMove},
      {Kind::kBitOr, Op::kBitOr, Op::kMove},
      {Kind::kShiftLeft, Op::kShiftLeft, Op::kMove},
      {Kind::kShiftRight, Op::kShiftRight, Op::kMove},
      {Kind::kToFloat, Op::kToFloat, Op::kMove},
      {Kind::kIntTrueDiv, Op::kIntTrueDiv, Op::kMove},
      {Kind::kFloatAdd, Op::kMove, Op::kFloatAdd},
      {Kind::kFloatMul, Op::kMove, Op::kFloatMul},
      {Kind::kFloatDiv, Op::kMove, Op::kFloatDiv},
      {Kind::kFloatPow, Op::kMove, Op::kFloatPow},
      {Kind::kFloatSqrt, Op::kMove, Op::kFloatSqrt},
      {Kind::kFloatMin, Op::kMove, Op::kFloatMin},
      {Kind::kFloatMax, Op::kMove, Op::kFloatMax},
      {Kind::kTruncToInt, Op::kMove, Op::kTruncToInt},
      {Kind::kFloorToInt, Op::kMove, Op::kFloorToInt},
      {Kind::kCeilToInt, Op::kMove, Op::kCeilToInt},
      {Kind::kRoundToInt, Op::kMove, Op::kRoundToInt},
  };
  const Stage stage = StageFor(node);
  const auto slot = [&](size_t i) { return *Find(node.args[i].node()); };
  if (node.kind == Kind::kSelect) return Emit(stage, Op::kSelect, out, slot(0), slot(1), slot(2));
  const auto* entry = std::ranges::find(kOps, node.kind, [](const auto& e) { return e.kind; });
  LS_CHECK(entry != std::end(kOps));
  const Op op = node.args[0].is_float_valued() ? entry->float_op : entry->op;
  if (node.args.size() == 1) return Emit(stage, op, out, slot(0), 0);
  Emit(stage, op, out, slot(0), slot(1));
  for (size_t i = 2; i < node.args.size(); ++i) Emit(stage, op, out, out, slot(i));
  return out;
}

uint32_t ProgramBuilder::Impl::CompileSelect(const Node& node, uint32_t out) {
  const Stage stage = StageFor(node);
  const size_t to_else = EmitJump(stage, Op::kJumpIfZero, *Find(node.args[0].node()));
  Lazily(stage, [&] { Emit(stage, Op::kMove, out, Compile(node.args[1]), 0); });
  const size_t to_end = EmitJump(stage, Op::kJump, 0);
  LandHere(stage, to_else);
  Lazily(stage, [&] { Emit(stage, Op::kMove, out, Compile(node.args[2]), 0); });
  LandHere(stage, to_end);
  return out;
}

uint32_t ProgramBuilder::Impl::CompileAndOr(const Node& node, uint32_t out) {
  const Stage stage = StageFor(node);
  const Op leave = node.kind == Kind::kAnd ? Op::kJumpIfZero : Op::kJumpIfNonZero;
  Emit(stage, Op::kMove, out, *Find(node.args[0].node()), 0);
  std::vector<size_t> exits;
  for (Expr arg : std::span(node.args).subspan(1)) {
    exits.push_back(EmitJump(stage, leave, out));
    Lazily(stage, [&] { Emit(stage, Op::kMove, out, Compile(arg), 0); });
  }
  for (size_t exit : exits) LandHere(stage, exit);
  return out;
}

ProgramBuilder::ProgramBuilder(Table& table) : impl_(std::make_unique<Impl>(table)) {}
ProgramBuilder::~ProgramBuilder() = default;

uint32_t ProgramBuilder::Slot(Expr e) { return impl_->Compile(e); }

uint32_t ProgramBuilder::Tuple(std::span<const Expr> expressions) {
  std::vector<uint32_t> key;
  for (Expr e : expressions) key.push_back(e.id());
  if (auto it = impl_->tuples.find(key); it != impl_->tuples.end()) return it->second;
  const uint32_t first = impl_->next_slot;
  for (Expr e : expressions) impl_->NewSlot(e.node());
  for (size_t i = 0; i < expressions.size(); ++i) {
    const Expr e = expressions[i];
    const uint32_t place = first + static_cast<uint32_t>(i);
    const uint32_t slot = impl_->Compile(e, place);
    if (slot == place) continue;
    // Already computed elsewhere; a constant costs no instruction.
    if (e.is_int())
      impl_->program.constants_.emplace_back(place, e.value());
    else
      impl_->Emit(e.node()->stage, ShapeProgram::Op::kMove, place, slot, 0);
  }
  return impl_->tuples[key] = first;
}

void ProgramBuilder::Check(Expr condition, std::string message) {
  if (impl_->table.IsTrue(condition) == Tri::kYes) {
    // Proven: but only where evaluating it cannot fail.
    if (!impl_->MayFail(condition.node())) return;
  }
  const uint32_t slot = impl_->Compile(condition);
  impl_->program.messages_.push_back(std::move(message));
  impl_->Emit(condition.node()->stage, ShapeProgram::Op::kCheck, 0, slot, 0,
              static_cast<uint32_t>(impl_->program.messages_.size() - 1));
}

ShapeProgram ProgramBuilder::Finish() {
  ShapeProgram program = std::move(impl_->program);
  for (const auto& section : impl_->sections) {
    const uint32_t begin = static_cast<uint32_t>(program.code_.size());
    for (ShapeProgram::Instruction in : section) {
      const bool jumps = in.op == ShapeProgram::Op::kJump ||
                         in.op == ShapeProgram::Op::kJumpIfZero ||
                         in.op == ShapeProgram::Op::kJumpIfNonZero;
      if (jumps) in.c += begin;
      program.code_.push_back(in);
    }
    program.sections_.push_back({begin, static_cast<uint32_t>(program.code_.size())});
  }
  program.symbol_count_ = program.symbols_.size();
  program.slot_names_ = std::move(impl_->names);
  program.slot_names_.resize(impl_->next_slot);
  // Every instruction reads slots a and b, used or not, so there is always one.
  program.block_size_ = std::max<size_t>(impl_->next_slot, 1);
  program.slot_names_.resize(program.block_size_);
  return program;
}

}  // namespace liveshape::sym
