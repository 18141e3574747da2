#include "artifact/load_expressions.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "artifact/format.h"

namespace liveshape::artifact {
namespace {

using sym::Expr;
using sym::Kind;

enum class Takes : uint8_t {
  kInts,
  kFloats,
  kAlike,   // all integers or all floats
  kSelect,  // an integer, then two alike
};

// What sym's operators are defined on; anything else would be a broken invariant there.
struct Signature {
  size_t min_args, max_args;
  Takes takes;
};

Signature SignatureOf(Kind kind) {
  switch (kind) {
    case Kind::kInt:
    case Kind::kSymbol:
    case Kind::kFloat: return {0, 0, Takes::kInts};
    case Kind::kAdd:
    case Kind::kMul:
    case Kind::kMin:
    case Kind::kMax:
    case Kind::kAnd:
    case Kind::kOr: return {2, kMaxExprArgs, Takes::kInts};
    case Kind::kPow:
    case Kind::kFloorDiv:
    case Kind::kCeilDiv:
    case Kind::kMod:
    case Kind::kBitAnd:
    case Kind::kBitOr:
    case Kind::kShiftLeft:
    case Kind::kShiftRight:
    case Kind::kIntTrueDiv: return {2, 2, Takes::kInts};
    case Kind::kSelect: return {3, 3, Takes::kSelect};
    case Kind::kEq:
    case Kind::kNe:
    case Kind::kLt:
    case Kind::kLe: return {2, 2, Takes::kAlike};
    case Kind::kNot:
    case Kind::kToFloat: return {1, 1, Takes::kInts};
    case Kind::kFloatAdd:
    case Kind::kFloatMul:
    case Kind::kFloatMin:
    case Kind::kFloatMax: return {2, kMaxExprArgs, Takes::kFloats};
    case Kind::kFloatDiv:
    case Kind::kFloatPow: return {2, 2, Takes::kFloats};
    case Kind::kFloatSqrt:
    case Kind::kTruncToInt:
    case Kind::kFloorToInt:
    case Kind::kCeilToInt:
    case Kind::kRoundToInt: return {1, 1, Takes::kFloats};
  }
  return {1, 0, Takes::kInts};
}

bool TypesFit(Takes takes, std::span<const Expr> args) {
  if (takes == Takes::kSelect) {
    if (args[0].is_float_valued()) return false;
    args = args.subspan(1);
    takes = Takes::kAlike;
  }
  if (takes == Takes::kAlike) takes = args[0].is_float_valued() ? Takes::kFloats : Takes::kInts;
  for (Expr arg : args)
    if (arg.is_float_valued() != (takes == Takes::kFloats)) return false;
  return true;
}

}  // namespace

Status LoadSymbols(const fbs::Model& model, sym::Table& table) {
  if (!model.symbols()) return {};
  std::unordered_set<std::string> names;
  for (const fbs::Symbol* symbol : *model.symbols()) {
    const std::string name = symbol->name()->str();
    if (name.empty() || !names.insert(name).second)
      return DataLoss("symbol {} is named `{}`: empty, or the name of an earlier one",
                      table.symbols().size(), name);
    if (symbol->lo() > symbol->hi())
      return DataLoss("symbol `{}` has the empty range [{}, {}]", name, symbol->lo(), symbol->hi());
    table.Symbol({.name = name,
                  .lo = symbol->lo(),
                  .hi = symbol->hi(),
                  .stage = symbol->stage(),
                  .display = symbol->display() ? symbol->display()->str() : std::string()});
  }
  return {};
}

Result<std::vector<Expr>> LoadExpressions(const fbs::Model& model, sym::Table& table,
                                          size_t max_terms) {
  std::vector<Expr> exprs;
  if (!model.exprs()) return exprs;
  const uint32_t count = model.exprs()->size();
  const size_t total_args = model.expr_args() ? model.expr_args()->size() : 0;
  exprs.reserve(count);
  std::vector<uint32_t> depth(count, 1), tree(count, 1);
  std::vector<Expr> args;
  size_t terms = 0;

  for (uint32_t i = 0; i < count; ++i) {
    // A copy: FlatBuffers' verifier does not check that a vector of structs is aligned.
    fbs::Expr node;
    std::memcpy(static_cast<void*>(&node), model.exprs()->Data() + size_t{i} * sizeof(node),
                sizeof(node));
    const auto kind = static_cast<Kind>(node.kind());
    if (node.kind() > fbs::ExprKind::MAX)
      return DataLoss("expression {} is of kind {}, which does not exist", i,
                      static_cast<int>(node.kind()));
    const Signature signature = SignatureOf(kind);
    const size_t begin = node.args_begin(), arg_count = node.args_count();
    if (arg_count < signature.min_args || arg_count > signature.max_args || begin > total_args ||
        arg_count > total_args - begin)
      return DataLoss("expression {} ({}) has {} arguments", i, fbs::EnumNameExprKind(node.kind()),
                      arg_count);
    args.clear();
    for (size_t a = 0; a < arg_count; ++a) {
      const uint32_t index = model.expr_args()->Get(static_cast<uint32_t>(begin + a));
      if (index >= i) return DataLoss("expression {} has expression {} as an argument", i, index);
      args.push_back(exprs[index]);
      depth[i] = std::max(depth[i], depth[index] + 1);
      tree[i] += tree[index];  // cannot overflow: kMaxExprArgs * kMaxExprTree is 2^28
      // Sums multiply out and flatten, so that an expression can be larger than its node in the file.
      terms += 1 + exprs[index].args().size();
    }
    if (depth[i] > kMaxExprDepth || tree[i] > kMaxExprTree || terms > max_terms)
      return DataLoss("expression {} is too large (depth {}, {} nodes)", i, depth[i], tree[i]);
    if (arg_count > 0 && !TypesFit(signature.takes, args))
      return DataLoss("expression {} ({}) mixes integers and floats", i,
                      fbs::EnumNameExprKind(node.kind()));

    switch (kind) {
      case Kind::kInt: exprs.push_back(table.Int(node.bits())); break;
      case Kind::kFloat: exprs.push_back(table.Float(std::bit_cast<double>(node.bits()))); break;
      case Kind::kSymbol:
        if (static_cast<uint64_t>(node.bits()) >= table.symbols().size())
          return DataLoss("expression {} is symbol {} of {}", i, node.bits(),
                          table.symbols().size());
        exprs.push_back(table.SymbolAt(static_cast<uint32_t>(node.bits())));
        break;
      default: exprs.push_back(table.Make(kind, args));
    }
  }
  return exprs;
}

}  // namespace liveshape::artifact
