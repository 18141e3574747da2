#include "passes/element.h"

#include <algorithm>

namespace liveshape::passes {
namespace {

using sym::Interval;

Interval RangeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool: return {0, 1};
    case DType::kU8: return {0, 255};
    case DType::kI8: return {INT8_MIN, INT8_MAX};
    case DType::kI16: return {INT16_MIN, INT16_MAX};
    case DType::kI32: return {INT32_MIN, INT32_MAX};
    default: return {};
  }
}

}  // namespace

Expr Elements::Index(std::string_view name, Expr dim) {
  const Expr size = Import(dim);
  const Interval range = table_.Bounds(size);
  const int64_t last =
      range.bounded_above() ? std::max<int64_t>(range.hi - 1, 0) : Interval::kPosInf;
  // '#' is in no symbol of an export.
  Expr i = table_.Symbol({.name = fmt::format("{}#{}", name, dims_.size()), .lo = 0, .hi = last});
  dims_.emplace(i.symbol(), size);
  return i;
}

const Elements::Leaf* Elements::FindLeaf(uint32_t symbol) const {
  auto it = leaves_.find(symbol);
  return it == leaves_.end() ? nullptr : &it->second;
}

bool Elements::DependsOn(Expr e, Expr index) const {
  for (uint32_t s : FreeSymbols(e)) {
    if (s == index.symbol()) return true;
    if (const Leaf* leaf = FindLeaf(s))
      for (Expr at : leaf->at)
        if (DependsOn(at, index)) return true;
  }
  return false;
}

bool Elements::IsUniform(Expr e) const {
  return std::ranges::none_of(FreeSymbols(e),
                              [&](uint32_t s) { return IsIndex(s) || FindLeaf(s); });
}

bool Elements::IsNonNegative(Expr e) {
  // Where e moves one way along an index, its least value is at one end: 0, or the live dim - 1.
  for (uint32_t s : FreeSymbols(e)) {
    auto dim = dims_.find(s);
    if (dim == dims_.end()) continue;
    auto with = [&](Expr value) {
      return table_.Substitute(
          e, [&](uint32_t t) { return t == s ? std::optional(value) : std::nullopt; });
    };
    const Interval step = table_.Bounds(with(table_.SymbolAt(s) + 1) - e);
    if (step.bounded_below() && step.lo >= 0)
      e = with(table_.Int(0));
    else if (step.bounded_above() && step.hi <= 0)
      e = with(dim->second - 1);
  }
  const Interval range = table_.Bounds(e);
  return range.bounded_below() && range.lo >= 0;
}

Expr Elements::ToGraph(Expr e) {
  for (uint32_t s : FreeSymbols(e)) {
    auto host = hosts_.find(s);
    if (host == hosts_.end()) continue;
    const sym::SymbolInfo& info = table_.symbols()[s];
    if (graph_.table().FindSymbol(info.name)) continue;
    const Expr symbol = graph_.table().Symbol(info);
    graph_.host_values.push_back({.symbol = symbol.symbol(),
                                  .source = host->second.source,
                                  .index = host->second.index,
                                  .element = graph_.table().Import(host->second.element)});
  }
  return graph_.table().Import(e);
}

std::vector<Expr> Elements::Import(const Dims& dims) {
  std::vector<Expr> result;
  for (Expr d : dims) result.push_back(Import(d));
  return result;
}

Expr Elements::MakeLeaf(ValueId v, const std::vector<Expr>& at) {
  std::vector<uint32_t> key = {v};
  for (Expr e : at) key.push_back(e.id());
  if (auto it = leaf_by_place_.find(key); it != leaf_by_place_.end()) return it->second;
  const Interval range = RangeOf(m_.TypeOf(v));
  const Expr leaf = table_.Symbol({.name = fmt::format("element#{}", leaves_.size()),
                                   .lo = range.lo,
                                   .hi = range.hi,
                                   .stage = 2});
  leaves_.emplace(leaf.symbol(), Leaf{v, at});
  return leaf_by_place_[key] = leaf;
}

// An element of an input or a state at a place that the shapes alone decide.
std::optional<Expr> Elements::HostValue(ValueId v, const std::vector<Expr>& at) {
  const ir::Value& value = graph_.value(v);
  if (value.origin != ir::Origin::kInput && value.origin != ir::Origin::kState) return std::nullopt;
  if (!IsInteger(value.type.dtype)) return std::nullopt;
  const std::vector<Expr> dims = Import(value.type.dims);
  Expr element = table_.Int(0);
  for (size_t i = 0; i < at.size(); ++i) {
    // It is read without a further check, so it must lie inside at every live shape.
    if (!IsUniform(at[i]) || table_.StageOf(at[i]) != 0) return std::nullopt;
    if (!IsNonNegative(at[i]) || !IsNonNegative(dims[i] - 1 - at[i])) return std::nullopt;
    element = element * dims[i] + at[i];
  }
  for (const auto& [symbol, host] : hosts_)
    if (host.source == value.origin && host.index == value.index && host.element == element)
      return table_.SymbolAt(symbol);
  for (const ir::HostValue& host : graph_.host_values)  // one that item() made
    if (host.source == value.origin && host.index == value.index && Import(host.element) == element)
      return Import(graph_.table().SymbolAt(host.symbol));
  const Interval range = RangeOf(value.type.dtype);
  size_t number = graph_.host_values.size() + hosts_.size();
  while (graph_.table().FindSymbol(fmt::format("h{}", number))) ++number;
  const Expr symbol = table_.Symbol(
      {.name = fmt::format("h{}", number), .lo = range.lo, .hi = range.hi, .stage = 1});
  hosts_.emplace(symbol.symbol(), Host{value.origin, value.index, element});
  return symbol;
}

std::optional<Expr> Elements::Of(ValueId v, const std::vector<Expr>& at) {
  if (IsFloat(m_.TypeOf(v))) return std::nullopt;
  std::optional<Expr> known;
  const ir::Value& value = graph_.value(v);
  if (value.origin == ir::Origin::kConstant)
    known = ConstantElement(table_, graph_.constants[value.index], at);
  else if (const Node* node = m_.Producer(v))
    known = OfNode(*node, at);
  else
    known = HostValue(v, at);
  return known ? known : MakeLeaf(v, at);
}

std::optional<Expr> Elements::OfNode(const Node& node, const std::vector<Expr>& at) {
  if (--budget_ < 0) return std::nullopt;
  if (node.op == &ops::kPointwise) return OfPointwise(node, at);
  if (node.op == &ops::kReshape) return OfReshape(node, at);
  if (node.op == &ops::kCopy) return Of(node.inputs[0], at);
  if (node.op == &ops::kIndex) return OfIndex(node, at);
  if (node.op == &ops::kCat) return OfCat(node, at);
  if (node.op == &ops::kCumsum) return OfCumsum(node, at);
  if (node.op == &ops::kPermute) {
    std::vector<Expr> inner(at.size());
    for (size_t i = 0; i < at.size(); ++i) inner[static_cast<size_t>(node.Ints("perm")[i])] = at[i];
    return Of(node.inputs[0], inner);
  }
  if (node.op == &ops::kSlice) {
    std::vector<Expr> inner = at;
    Expr& i = inner[static_cast<size_t>(node.Int("dim"))];
    i = Import(node.Exprs("start")[0]) + i * node.Int("step");
    return Of(node.inputs[0], inner);
  }
  if (node.op == &ops::kExpand) {
    const Dims& dims = m_.DimsOf(node.inputs[0]);
    std::vector<Expr> inner(at.end() - static_cast<std::ptrdiff_t>(dims.size()), at.end());
    for (size_t i = 0; i < dims.size(); ++i)
      if (ir::Broadcasts(dims[i])) inner[i] = table_.Int(0);
    return Of(node.inputs[0], inner);
  }
  return std::nullopt;
}

std::optional<Expr> Elements::OfPointwise(const Node& node, const std::vector<Expr>& at) {
  const ir::PointwiseProgram& program = node.Program();
  std::vector<std::optional<Expr>> done;
  for (const PwInstr& p : program.code) {
    if (--budget_ < 0) return std::nullopt;
    auto arg = [&](uint32_t i) { return done[i]; };
    const std::optional<Expr> a = OperandCount(p.op) > 0 ? arg(p.a) : std::nullopt;
    const std::optional<Expr> b = OperandCount(p.op) > 1 ? arg(p.b) : std::nullopt;
    const std::optional<Expr> c = OperandCount(p.op) > 2 ? arg(p.c) : std::nullopt;
    const bool known = !IsFloat(p.dtype) && (OperandCount(p.op) < 1 || a) &&
                       (OperandCount(p.op) < 2 || b) && (OperandCount(p.op) < 3 || c);
    std::optional<Expr> e;
    const bool logical = p.dtype == DType::kBool;
    if (known) {
      switch (p.op) {
        case PwOp::kLoad: e = Of(node.inputs[static_cast<size_t>(p.imm)], at); break;
        case PwOp::kConst: e = table_.Int(p.imm); break;
        case PwOp::kScalar: e = Import(program.scalars[static_cast<size_t>(p.imm)]); break;
        case PwOp::kIota: e = at[static_cast<size_t>(p.imm)]; break;
        case PwOp::kCast: e = logical ? sym::Ne(*a, table_.Int(0)) : *a; break;
        case PwOp::kAdd: e = logical ? sym::Or(*a, *b) : *a + *b; break;
        case PwOp::kSub: e = *a - *b; break;
        case PwOp::kMul: e = logical ? sym::And(*a, *b) : *a * *b; break;
        case PwOp::kMin: e = sym::Min(*a, *b); break;
        case PwOp::kMax: e = sym::Max(*a, *b); break;
        case PwOp::kNeg: e = -*a; break;
        case PwOp::kAbs: e = sym::Max(*a, -*a); break;
        case PwOp::kSquare: e = *a * *a; break;
        case PwOp::kEq: e = sym::Eq(*a, *b); break;
        case PwOp::kNe: e = sym::Ne(*a, *b); break;
        case PwOp::kLt: e = sym::Lt(*a, *b); break;
        case PwOp::kLe: e = sym::Le(*a, *b); break;
        case PwOp::kGt: e = sym::Gt(*a, *b); break;
        case PwOp::kGe: e = sym::Ge(*a, *b); break;
        case PwOp::kWhere: e = sym::Select(*a, *b, *c); break;
        case PwOp::kAnd:
          if (logical) e = sym::And(*a, *b);
          break;
        case PwOp::kOr:
          if (logical) e = sym::Or(*a, *b);
          break;
        case PwOp::kXor:
          if (logical) e = sym::Ne(*a, *b);
          break;
        case PwOp::kNot:
          if (logical) e = sym::Not(*a);
          break;
        // Python's floor semantics are torch's; a divisor that may be 0 is a fault of its own kind.
        case PwOp::kFloorDiv:
          if (IsNonNegative(*b - 1)) e = sym::FloorDiv(*a, *b);
          break;
        case PwOp::kRemainder:
          if (IsNonNegative(*b - 1)) e = sym::Mod(*a, *b);
          break;
        default: break;
      }
    }
    // int64 has no wider type to compare with: positions do not come near its ends. Narrower ones wrap.
    if (const Interval fits = RangeOf(p.dtype); e && fits.bounded_above()) {
      const Interval range = table_.Bounds(*e);
      if (range.lo < fits.lo || range.hi > fits.hi) e = std::nullopt;
    }
    done.push_back(e);
  }
  return done.back();
}

// Dims are paired off from the right in groups of equal product; inside a group the flat index is exact.
std::optional<Expr> Elements::OfReshape(const Node& node, const std::vector<Expr>& at) {
  const std::vector<Expr> out = Import(m_.DimsOf(node.outputs[0])),
                          in = Import(m_.DimsOf(node.inputs[0]));
  std::vector<Expr> inner(in.size(), table_.Int(0));
  size_t i = out.size(), j = in.size();
  while (i > 0 || j > 0) {
    const size_t i_end = i, j_end = j;
    Expr product_out = table_.Int(1), product_in = table_.Int(1);
    if (i > 0) product_out = product_out * out[--i];
    while (product_out != product_in) {
      // The side with fewer factors so far takes the next one.
      const bool take_in =
          j > 0 && (i == 0 || table_.Divides(product_in, product_out) == sym::Tri::kYes);
      if (take_in)
        product_in = product_in * in[--j];
      else if (i > 0)
        product_out = product_out * out[--i];
      else
        return std::nullopt;
    }
    while (i == 0 && j > 0 && in[j - 1].is_int(1)) --j;
    if (i == i_end && j == j_end) return std::nullopt;  // the counts differ
    Expr flat = table_.Int(0);
    for (size_t d = i; d < i_end; ++d) flat = flat * out[d] + at[d];
    if (j_end - j == 1) {
      inner[j] = flat;
      continue;
    }
    for (size_t d = j_end; d-- > j;) {
      if (in[d].is_int(1)) continue;
      const bool outermost = std::all_of(in.begin() + static_cast<std::ptrdiff_t>(j),
                                         in.begin() + static_cast<std::ptrdiff_t>(d),
                                         [](Expr e) { return e.is_int(1); });
      inner[d] = flat;
      if (outermost) continue;
      if (!IsNonNegative(in[d] - 1)) return std::nullopt;
      inner[d] = sym::Mod(flat, in[d]);
      flat = sym::FloorDiv(flat, in[d]);
    }
  }
  return Of(node.inputs[0], inner);
}

std::optional<Expr> Elements::OfIndex(const Node& node, const std::vector<Expr>& at) {
  const std::vector<int64_t>& axes = node.Ints("axes");
  const Dims& x = m_.DimsOf(node.inputs[0]);
  const size_t rank = m_.DimsOf(node.inputs[1]).size();
  const bool adjacent = axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  const size_t lead = adjacent ? static_cast<size_t>(axes[0]) : 0;
  const std::vector<Expr> place(at.begin() + static_cast<std::ptrdiff_t>(lead),
                                at.begin() + static_cast<std::ptrdiff_t>(lead + rank));
  std::vector<Expr> inner, rest = at;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(lead),
             rest.begin() + static_cast<std::ptrdiff_t>(lead + rank));
  size_t next_axis = 0, next_rest = 0;
  for (size_t d = 0; d < x.size(); ++d) {
    if (next_axis == axes.size() || axes[next_axis] != static_cast<int64_t>(d)) {
      inner.push_back(rest[next_rest++]);
      continue;
    }
    const Expr i = *Of(node.inputs[++next_axis], place);
    const Expr zero = table_.Int(0);
    inner.push_back(IsNonNegative(i) ? i : sym::Select(sym::Lt(i, zero), i + Import(x[d]), i));
  }
  return Of(node.inputs[0], inner);
}

std::optional<Expr> Elements::OfCat(const Node& node, const std::vector<Expr>& at) {
  const size_t dim = static_cast<size_t>(node.Int("dim"));
  Expr start = table_.Int(0);
  struct Piece { Expr start, end, element; };
  std::vector<Piece> pieces;
  for (ValueId input : node.inputs) {
    const Expr end = start + Import(m_.DimsOf(input)[dim]);
    std::vector<Expr> inner = at;
    inner[dim] = at[dim] - start;
    const bool before = IsNonNegative(at[dim] - end);  // this piece is never reached
    if (!before) pieces.push_back({start, end, *Of(input, inner)});
    if (IsNonNegative(end - 1 - at[dim])) break;  // nor any behind it
    start = end;
  }
  if (pieces.empty()) return std::nullopt;
  Expr result = pieces.back().element;
  for (size_t i = pieces.size() - 1; i-- > 0;) {
    const Piece& piece = pieces[i];
    // A piece of one element that continues its neighbour's formula is no exception to it.
    if (piece.end - piece.start == table_.Int(1) && IsNonNegative(at[dim] - piece.start)) {
      const Expr symbol = at[dim].is_symbol() ? at[dim] : Expr();
      auto there = [&](Expr e) {
        return table_.Substitute(e, [&](uint32_t s) {
          return s == symbol.symbol() ? std::optional(piece.start) : std::nullopt;
        });
      };
      if (symbol && there(result) == there(piece.element)) continue;
    }
    result = sym::Select(sym::Lt(at[dim], piece.end), piece.element, result);
  }
  return result;
}

// A sum of equal terms.
std::optional<Expr> Elements::OfCumsum(const Node& node, std::vector<Expr> at) {
  const size_t dim = static_cast<size_t>(node.Int("dim"));
  const Expr last = at[dim], running = Index("sum", m_.DimsOf(node.inputs[0])[dim]);
  at[dim] = running;
  const std::optional<Expr> term = Of(node.inputs[0], at);
  if (!term || DependsOn(*term, running)) return std::nullopt;
  return *term * (last + 1);
}

}  // namespace liveshape::passes
