// Tables: interning, symbols, and the walks that rebuild expressions.
#include "sym/expr.h"

#include <algorithm>

#include "sym/node.h"

namespace liveshape::sym {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdULL;
}

uint64_t HashOf(Kind kind, std::span<const Expr> args, int64_t bits) {
  uint64_t hash = Mix(static_cast<uint64_t>(kind), static_cast<uint64_t>(bits));
  for (Expr arg : args) hash = Mix(hash, arg.id());
  return hash;
}

uint32_t SaturatingAdd(uint32_t a, uint32_t b) {
  uint32_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint32_t>::max() : sum;
}

uint32_t DegreeOf(const Node& node) {
  if (node.kind == Kind::kInt) return 0;
  if (node.kind == Kind::kPow && node.args[1].is_int()) {
    const int64_t power = node.args[1].value();
    return static_cast<uint32_t>(std::clamp<int64_t>(power, 1, 1 << 30));
  }
  if (node.kind != Kind::kMul) return 1;
  uint32_t degree = 0;
  for (Expr factor : node.args) degree = SaturatingAdd(degree, factor.node()->degree);
  return degree;
}

void DeriveStage(Node& node, const std::vector<SymbolInfo>& symbols) {
  node.stage = node.kind == Kind::kSymbol ? symbols[node.bits].stage : Stage{0};
  for (Expr arg : node.args) node.stage = std::max(node.stage, arg.node()->stage);
}

// The facts about a node that follow from its arguments.
void Derive(Node& node, const std::vector<SymbolInfo>& symbols) {
  node.is_float =
      IsFloatKind(node.kind) || (node.kind == Kind::kSelect && node.args[1].is_float_valued());
  if (node.kind == Kind::kSymbol) node.symbol_mask = uint64_t{1} << (node.bits % 64);
  DeriveStage(node, symbols);
  for (Expr arg : node.args) {
    const Node& a = *arg.node();
    node.shares_symbols |= (node.symbol_mask & a.symbol_mask) != 0;
    node.symbol_mask |= a.symbol_mask;
    node.tree_size = SaturatingAdd(node.tree_size, a.tree_size);
    node.depth = std::max(node.depth, SaturatingAdd(a.depth, 1));
  }
  node.degree = DegreeOf(node);
}

// Rebuilds `root` in `table`, leaves through `leaf`; equal sub-expressions are rebuilt once.
Expr Rebuild(Table& table, Expr root, const std::function<Expr(Expr)>& leaf) {
  std::unordered_map<const Node*, Expr> done;
  std::vector<Expr> args;
  for (const Node* node : TopologicalOrder(root)) {
    if (node->args.empty()) {
      done[node] = leaf(node->expr());
      continue;
    }
    args.clear();
    for (Expr arg : node->args) args.push_back(done.at(arg.node()));
    done[node] = table.Make(node->kind, args);
  }
  return done.at(root.node());
}

}  // namespace

Kind Expr::kind() const { return node_->kind; }
bool Expr::is_float_valued() const { return node_->is_float; }
int64_t Expr::value() const {
  LS_CHECK(node_->kind == Kind::kInt);
  return node_->bits;
}
double Expr::float_value() const {
  LS_CHECK(node_->kind == Kind::kFloat);
  return std::bit_cast<double>(node_->bits);
}
uint32_t Expr::symbol() const {
  LS_CHECK(node_->kind == Kind::kSymbol);
  return static_cast<uint32_t>(node_->bits);
}
std::span<const Expr> Expr::args() const { return node_->args; }
uint32_t Expr::id() const { return node_->id; }
Table& Expr::table() const { return *node_->table; }

Expr Table::Impl::Intern(Kind kind, std::span<const Expr> args, int64_t bits, Expr monomial) {
  const uint64_t hash = HashOf(kind, args, bits);
  auto [begin, end] = interned.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Node& node = *it->second;
    if (node.kind == kind && node.bits == bits && std::ranges::equal(node.args, args)) {
      return node.expr();
    }
  }
  if (frozen) {
    Panic(__FILE__, __LINE__,
          "a new expression was asked of a frozen sym::Table; build it before Freeze()");
  }
  Node& node = nodes.emplace_back();
  node.kind = kind;
  node.id = static_cast<uint32_t>(nodes.size() - 1);
  node.bits = bits;
  node.table = &table;
  node.args.assign(args.begin(), args.end());
  node.monomial = monomial;
  Derive(node, symbols);
  interned.emplace(hash, &node);
  return node.expr();
}

Table::Table() : impl_(std::make_unique<Impl>(*this)) {}
Table::~Table() = default;

Expr Table::Int(int64_t value) { return impl_->Intern(Kind::kInt, {}, value); }

Expr Table::Float(double value) {
  return impl_->Intern(Kind::kFloat, {}, std::bit_cast<int64_t>(value));
}

Expr Table::Symbol(SymbolInfo info) {
  Impl& impl = *impl_;
  if (auto it = impl.by_name.find(info.name); it != impl.by_name.end()) {
    return impl.symbol_nodes[it->second];
  }
  LS_CHECK(info.lo <= info.hi);
  const uint32_t index = static_cast<uint32_t>(impl.symbols.size());
  impl.by_name.emplace(info.name, index);
  impl.symbols.push_back(std::move(info));
  impl.symbol_nodes.push_back(impl.Intern(Kind::kSymbol, {}, index));
  return impl.symbol_nodes.back();
}

std::optional<Expr> Table::FindSymbol(std::string_view name_or_display) const {
  if (auto it = impl_->by_name.find(std::string(name_or_display)); it != impl_->by_name.end()) {
    return impl_->symbol_nodes[it->second];
  }
  if (name_or_display.empty()) return std::nullopt;
  for (size_t i = 0; i < impl_->symbols.size(); ++i) {
    if (impl_->symbols[i].display == name_or_display) return impl_->symbol_nodes[i];
  }
  return std::nullopt;
}

Expr Table::SymbolAt(uint32_t index) const {
  LS_CHECK(index < impl_->symbol_nodes.size());
  return impl_->symbol_nodes[index];
}

const std::vector<SymbolInfo>& Table::symbols() const { return impl_->symbols; }

void Table::NarrowSymbol(uint32_t index, int64_t lo, int64_t hi) {
  LS_CHECK(index < impl_->symbols.size());
  SymbolInfo& info = impl_->symbols[index];
  LS_CHECK(info.lo <= lo && hi <= info.hi && lo <= hi);
  if (info.lo == lo && info.hi == hi) return;
  info.lo = lo;
  info.hi = hi;
  ++impl_->epoch;
  if (impl_->frozen) impl_->RefreshAll();  // readers of a frozen table must find no stale range
}

void Table::SetDisplay(uint32_t index, std::string display) {
  LS_CHECK(index < impl_->symbols.size());
  impl_->symbols[index].display = std::move(display);
}

void Table::SetStage(uint32_t index, Stage stage) {
  LS_CHECK(index < impl_->symbols.size() && !impl_->frozen);
  if (impl_->symbols[index].stage == stage) return;
  impl_->symbols[index].stage = stage;
  for (Node& node : impl_->nodes) DeriveStage(node, impl_->symbols);
}

void Table::Freeze() {
  impl_->RefreshAll();
  impl_->frozen = true;
}

Expr Table::Substitute(Expr e,
                       const std::function<std::optional<Expr>(uint32_t symbol)>& replacement) {
  return Rebuild(*this, e, [&](Expr leaf) {
    if (!leaf.is_symbol()) return leaf;
    return replacement(leaf.symbol()).value_or(leaf);
  });
}

Expr Table::Import(Expr foreign) {
  if (&foreign.table() == this) return foreign;
  const std::vector<SymbolInfo>& theirs = foreign.table().symbols();
  return Rebuild(*this, foreign, [&](Expr leaf) {
    switch (leaf.kind()) {
      case Kind::kInt: return Int(leaf.value());
      case Kind::kFloat: return Float(leaf.float_value());
      default: return Symbol(theirs[leaf.symbol()]);
    }
  });
}

std::vector<uint32_t> Table::FreeSymbols(Expr e) const {
  std::vector<uint32_t> found;
  if (e.node()->symbol_mask == 0) return found;
  for (const Node* node : TopologicalOrder(e)) {
    if (node->kind == Kind::kSymbol) found.push_back(static_cast<uint32_t>(node->bits));
  }
  std::ranges::sort(found);
  return found;
}

Stage Table::StageOf(Expr e) const { return e.node()->stage; }

std::vector<const Node*> TopologicalOrder(Expr root) {
  std::vector<const Node*> found = {root.node()};
  std::unordered_map<const Node*, bool> seen = {{root.node(), true}};
  for (size_t i = 0; i < found.size(); ++i) {
    for (Expr arg : found[i]->args) {
      if (seen.emplace(arg.node(), true).second) found.push_back(arg.node());
    }
  }
  std::ranges::sort(found, {}, &Node::id);
  return found;
}

int Compare(Expr a, Expr b) {
  // One pair of differing arguments decides, so this descends without recursion.
  while (a != b) {
    const Node &x = *a.node(), &y = *b.node();
    if (x.kind != y.kind) {
      // Symbols first, as people write products.
      if ((x.kind == Kind::kSymbol) != (y.kind == Kind::kSymbol)) {
        return x.kind == Kind::kSymbol ? -1 : 1;
      }
      return x.kind < y.kind ? -1 : 1;
    }
    if (x.args.size() != y.args.size()) return x.args.size() < y.args.size() ? -1 : 1;
    if (x.args.empty()) return x.bits < y.bits ? -1 : 1;
    const auto [differing_a, differing_b] = std::ranges::mismatch(x.args, y.args);
    a = *differing_a;
    b = *differing_b;
  }
  return 0;
}

// ---- The arithmetic of expr.h ----

namespace {
Expr Make2(Kind kind, Expr a, Expr b) {
  const Expr args[] = {a, b};
  return a.table().Make(kind, args);
}
Expr Constant(Expr like, int64_t value) { return like.table().Int(value); }
}  // namespace

Expr operator+(Expr a, Expr b) { return Make2(Kind::kAdd, a, b); }
Expr operator*(Expr a, Expr b) { return Make2(Kind::kMul, a, b); }
Expr operator-(Expr a) { return Constant(a, -1) * a; }
Expr operator-(Expr a, Expr b) { return a + -b; }
Expr operator+(Expr a, int64_t b) { return a + Constant(a, b); }
Expr operator-(Expr a, int64_t b) { return a - Constant(a, b); }
Expr operator-(int64_t a, Expr b) { return Constant(b, a) - b; }
Expr operator*(Expr a, int64_t b) { return a * Constant(a, b); }
Expr FloorDiv(Expr a, Expr b) { return Make2(Kind::kFloorDiv, a, b); }
Expr CeilDiv(Expr a, Expr b) { return Make2(Kind::kCeilDiv, a, b); }
Expr Mod(Expr a, Expr b) { return Make2(Kind::kMod, a, b); }
Expr Min(Expr a, Expr b) { return Make2(Kind::kMin, a, b); }
Expr Max(Expr a, Expr b) { return Make2(Kind::kMax, a, b); }
Expr Pow(Expr base, int64_t exponent) { return Make2(Kind::kPow, base, Constant(base, exponent)); }
Expr Select(Expr condition, Expr if_true, Expr if_false) {
  const Expr args[] = {condition, if_true, if_false};
  return condition.table().Make(Kind::kSelect, args);
}
Expr Eq(Expr a, Expr b) { return Make2(Kind::kEq, a, b); }
Expr Ne(Expr a, Expr b) { return Make2(Kind::kNe, a, b); }
Expr Lt(Expr a, Expr b) { return Make2(Kind::kLt, a, b); }
Expr Le(Expr a, Expr b) { return Make2(Kind::kLe, a, b); }
Expr And(Expr a, Expr b) { return Make2(Kind::kAnd, a, b); }
Expr Or(Expr a, Expr b) { return Make2(Kind::kOr, a, b); }
Expr Not(Expr a) { return a.table().Make(Kind::kNot, {{a}}); }
Expr Product(Table& table, std::span<const Expr> factors) {
  return table.Make(Kind::kMul, factors);
}

}  // namespace liveshape::sym
