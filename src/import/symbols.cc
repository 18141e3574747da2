#include "import/symbols.h"

#include <algorithm>
#include <random>

#include "import/importer.h"
#include "import/pt2/json.h"
#include "ops/aten.h"
#include "sym/parse.h"

namespace liveshape::import {
namespace {

using sym::Expr;
using sym::Interval;

struct Declaration {
  int64_t lo = Interval::kNegInf, hi = Interval::kPosInf;
  std::string display = {};
  sym::Stage stage = 0;
};

// `Symbol('s0', positive=True, integer=True)` -> s0; empty for anything else.
std::string PlainSymbol(std::string_view srepr) {
  constexpr std::string_view kPrefix = "Symbol('";
  if (!srepr.starts_with(kPrefix)) return {};
  srepr.remove_prefix(kPrefix.size());
  const size_t quote = srepr.find('\'');
  const size_t close = srepr.find(')');
  if (quote == srepr.npos || close + 1 != srepr.size()) return {};
  return std::string(srepr.substr(0, quote));
}

Status ReadDisplayNames(const pt2::Pt2Archive& archive,
                        std::map<std::string, Declaration>& symbols) {
  auto it = archive.extras().find("liveshape.json");
  if (it == archive.extras().end()) return {};
  LS_ASSIGN_OR_RETURN(pt2::JsonDocument json, pt2::ParseJson(it->second, "extra/liveshape.json"));
  const pt2::JsonAt root("extra/liveshape.json", json.root);
  LS_ASSIGN_OR_RETURN(auto names, root.Find("symbols"));
  if (!names) return {};
  LS_ASSIGN_OR_RETURN(const pt2::JsonObject* object, names->Object());
  for (const auto& member : *object) {
    LS_ASSIGN_OR_RETURN(std::string display, names->At(member).String());
    if (auto found = symbols.find(std::string(member.key)); found != symbols.end())
      found->second.display = display;
  }
  return {};
}

// A range keyed by an expression (`4*s6` in [4, 16]) is what the user wrote; it outranks the symbol's own.
Status ApplyExpressionRanges(const pt2::Program& program,
                             std::map<std::string, Declaration>& symbols) {
  for (const auto& [key, range] : program.range_constraints) {
    if (symbols.contains(key)) continue;
    sym::Table scratch;
    for (const auto& [name, d] : symbols) scratch.Symbol({.name = name});
    auto parsed = sym::ParseInfix(scratch, key);
    if (!parsed.ok()) continue;  // over a symbol that nothing else names
    const std::vector<uint32_t> free = scratch.FreeSymbols(*parsed);
    if (free.size() != 1) continue;
    const Expr s = scratch.SymbolAt(free[0]);
    const int64_t zero[] = {0}, one[] = {1};
    std::vector<int64_t> point(scratch.symbols().size(), 0);
    point[free[0]] = zero[0];
    auto at0 = scratch.Evaluate(*parsed, point);
    point[free[0]] = one[0];
    auto at1 = scratch.Evaluate(*parsed, point);
    if (!at0.ok() || !at1.ok()) continue;
    const int64_t scale = *at1 - *at0, rest = *at0;
    if (scale <= 0 || *parsed != s * scale + rest) continue;  // not linear
    Declaration& d = symbols[scratch.symbols()[free[0]].name];
    if (range.lo) d.lo = (*range.lo - rest + scale - 1) / scale;
    if (range.hi) d.hi = (*range.hi - rest) / scale;
  }
  return {};
}

// A symbol that item() gives is known at run, not at bind.
void MarkHostValues(const pt2::Graph& graph, std::map<std::string, Declaration>& symbols) {
  for (const pt2::Node& node : graph.nodes) {
    if (!IsItem(ShortTarget(node.target)) || node.outputs.empty()) continue;
    auto it = graph.sym_int_values.find(node.outputs[0].value_name());
    if (it == graph.sym_int_values.end()) continue;
    if (std::string name = PlainSymbol(it->second.expr); ops::IsUnbacked(name))
      symbols[name].stage = 1;
  }
}

// Whether some size or number of the graph is an expression over the symbol.
bool Mentions(const pt2::Graph& graph, const std::string& name) {
  const std::string text = fmt::format("Symbol('{}'", name);
  const auto in = [&](const auto& value) { return value.expr.find(text) != std::string::npos; };
  const auto in_value = [&](const auto& entry) { return in(entry.second); };
  return std::ranges::any_of(graph.sym_int_values, in_value) ||
         std::ranges::any_of(graph.sym_float_values, in_value) ||
         std::ranges::any_of(graph.sym_bool_values, in_value) ||
         std::ranges::any_of(
             graph.tensor_values,
             [&](const auto& entry) { return std::ranges::any_of(entry.second.sizes, in); }) ||
         std::ranges::any_of(graph.nodes, [&](const pt2::Node& node) {
           return std::ranges::any_of(node.inputs, [&](const pt2::NamedArg& input) {
             const auto inner = input.arg.graph();
             return inner && Mentions(*inner, name);
           });
         });
}

}  // namespace

Status DeclareSymbols(const pt2::Pt2Archive& archive, const ImportOptions& options,
                      sym::Table& table) {
  const pt2::Program& program = archive.program();
  std::map<std::string, Declaration> symbols;
  for (const auto& [key, range] : program.range_constraints) {
    const bool is_name =
        key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") ==
        std::string::npos;
    if (!is_name) continue;
    Declaration d;
    if (range.lo) d.lo = *range.lo;
    // Unbacked maxima of 2^63-2 and the like mean "none".
    if (range.hi && *range.hi < Interval::kPosInf / 2) d.hi = *range.hi;
    symbols[key] = d;
  }
  LS_RETURN_IF_ERROR(ApplyExpressionRanges(program, symbols));
  LS_RETURN_IF_ERROR(ReadDisplayNames(archive, symbols));

  std::map<std::string, std::string> by_place;
  for (const pt2::InputSpec& spec : program.input_specs) {
    if (spec.kind != pt2::InputKind::kUserInput) continue;
    if (auto name = spec.arg.tensor()) {
      const pt2::TensorMeta* meta = program.graph.FindTensor(*name);
      for (size_t i = 0; meta && i < meta->sizes.size(); ++i)
        if (std::string s = PlainSymbol(meta->sizes[i].expr); !s.empty())
          by_place[fmt::format("{}.{}", spec.path, i)] = s;
    } else if (auto it = program.graph.sym_int_values.find(spec.arg.value_name());
               it != program.graph.sym_int_values.end()) {
      if (std::string s = PlainSymbol(it->second.expr); !s.empty()) by_place[spec.path] = s;
    }
  }
  auto resolve = [&](const std::string& name, const char* flag) -> Result<Declaration*> {
    for (auto& [symbol, d] : symbols)
      if (symbol == name || (!d.display.empty() && d.display == name)) return &d;
    if (auto it = by_place.find(name); it != by_place.end()) return &symbols[it->second];
    std::string known;
    for (const auto& [symbol, d] : symbols)
      known +=
          fmt::format("{}{}", known.empty() ? "" : ", ", d.display.empty() ? symbol : d.display);
    return NotFound("{} {}: there is no such symbol; the program has: {}", flag, name, known);
  };
  for (const auto& [name, value] : options.mins) {
    LS_ASSIGN_OR_RETURN(Declaration * d, resolve(name, "--min"));
    if (value < 0 || value > d->hi)
      return InvalidArgument("--min {}={}: must be in [0, {}]", name, value, d->hi);
    d->lo = value;
  }
  for (const auto& [name, value] : options.bounds) {
    LS_ASSIGN_OR_RETURN(Declaration * d, resolve(name, "--bound"));
    if (value > d->hi)
      return InvalidArgument(
          "--bound {}={}: above the exported maximum {}; re-export with a larger max", name, value,
          d->hi);
    if (value < d->lo)
      return InvalidArgument("--bound {}={}: below the minimum {}", name, value, d->lo);
    d->hi = value;
  }
  MarkHostValues(program.graph, symbols);
  // A range stays behind where the exporter found what a number born from data is equal to.
  std::erase_if(symbols, [&](const auto& entry) {
    return ops::IsUnbacked(entry.first) && !Mentions(program.graph, entry.first);
  });
  for (const auto& [name, d] : symbols)
    if (d.lo > d.hi) return DataLoss("symbol `{}` has an empty range [{}, {}]", name, d.lo, d.hi);
  for (const auto& [name, d] : symbols)
    table.Symbol({.name = name, .lo = d.lo, .hi = d.hi, .stage = d.stage, .display = d.display});
  return {};
}

namespace {

// L['d']['x'].size()[0] -> "d.x" and 0; L['flat_args'][1]... -> the second user input.
struct Leaf {
  std::vector<std::string> keys;
  int64_t dim = -1;  // -1: the value itself (an integer input)
};

std::optional<Leaf> ReadLeaf(std::string_view text) {
  Leaf leaf;
  if (!text.starts_with("L[")) return std::nullopt;
  text.remove_prefix(1);
  auto bracket = [&]() -> std::optional<std::string> {
    const size_t close = text.find(']');
    if (!text.starts_with("[") || close == text.npos) return std::nullopt;
    std::string key(text.substr(1, close - 1));
    if (key.size() >= 2 && (key.front() == '\'' || key.front() == '"'))
      key = key.substr(1, key.size() - 2);
    text.remove_prefix(close + 1);
    return key;
  };
  while (text.starts_with("[")) {
    auto key = bracket();
    if (!key) return std::nullopt;
    leaf.keys.push_back(*key);
  }
  if (text.empty()) return leaf;
  for (std::string_view accessor : {".size()", ".shape"})
    if (text.starts_with(accessor)) {
      text.remove_prefix(accessor.size());
      auto index = bracket();
      if (!index || !text.empty() || index->empty() ||
          index->find_first_not_of("0123456789") != std::string::npos || index->size() > 4)
        return std::nullopt;
      leaf.dim = std::stoll(*index);
      return leaf;
    }
  return std::nullopt;
}

// Tracing assumes that sizes are neither 0 nor 1 and compares strides with each other; what it finds out
// on the way becomes guards, though our ops serve those sizes. They are known by how they are written:
//   e != 0, e != 1, e >= 2        a size or a stride that is not special
//   16*p + 16*s != 1024           two strides that differ: the sides share a factor, as strides do
// A guard of a Python branch (`if n == 5`) has neither form and is checked.
bool IsTracingArtefact(sym::Table& table, std::string_view code, const sym::LeafResolver& resolve) {
  const auto side = [&](std::string_view text) -> std::optional<Expr> {
    auto parsed = sym::ParsePythonGuard(table, text, resolve);
    return parsed.ok() ? std::optional(*parsed) : std::nullopt;
  };
  if (const size_t at = code.find(" >= "); at != code.npos) {
    const auto right = side(code.substr(at + 4));
    return right && right->is_int(2);
  }
  const size_t at = code.find(" != ");
  if (at == code.npos) return false;
  const auto left = side(code.substr(0, at)), right = side(code.substr(at + 4));
  if (!left || !right) return false;
  for (Expr e : {*left, *right})
    if (e.is_int(0) || e.is_int(1)) return true;
  const auto divides = [&](Expr factor) {
    return table.Divides(factor, *left) == sym::Tri::kYes &&
           table.Divides(factor, *right) == sym::Tri::kYes;
  };
  for (int64_t prime : {2, 3, 5, 7})
    if (divides(table.Int(prime))) return true;
  for (uint32_t s : table.FreeSymbols(*left))
    if (divides(table.SymbolAt(s))) return true;
  return false;
}

}  // namespace

Status ImportGuards(const pt2::Program& program,
                    const std::map<std::string, uint32_t>& input_by_path,
                    const std::vector<uint32_t>& flat_inputs, ir::Graph& graph,
                    std::vector<std::string>& warnings) {
  auto resolve = [&](std::string_view text) -> std::optional<Expr> {
    auto leaf = ReadLeaf(text);
    if (!leaf || leaf->keys.empty()) return std::nullopt;
    const ir::Input* input = nullptr;
    if (leaf->keys[0] == "flat_args" && leaf->keys.size() == 2) {
      const auto index = std::strtoull(leaf->keys[1].c_str(), nullptr, 10);
      if (index < flat_inputs.size() && flat_inputs[index] != kNoInput)
        input = &graph.inputs[flat_inputs[index]];
    } else {
      std::string path;
      for (const std::string& key : leaf->keys) path += (path.empty() ? "" : ".") + key;
      if (auto it = input_by_path.find(path); it != input_by_path.end())
        input = &graph.inputs[it->second];
    }
    if (input == nullptr) return std::nullopt;
    if (leaf->dim < 0) return input->scalar ? std::optional(input->scalar) : std::nullopt;
    if (input->value == ir::kNoValue) return std::nullopt;
    const ir::Dims& dims = graph.type(input->value).dims;
    if (leaf->dim >= static_cast<int64_t>(dims.size())) return std::nullopt;
    return dims[static_cast<size_t>(leaf->dim)];
  };
  for (const std::string& code : program.guards_code) {
    auto condition = sym::ParsePythonGuard(graph.table(), code, resolve);
    if (!condition.ok()) {
      // About strides, types or objects the graph does not read.
      if (condition.status().code() != Code::kNotFound)
        warnings.push_back(fmt::format("guard not understood, not checked: {}", code));
      continue;
    }
    if (condition->is_int() || IsTracingArtefact(graph.table(), code, resolve)) continue;
    graph.guards.push_back({*condition, fmt::format("the program requires {}", code)});
  }
  return {};
}

Status FindSpecialisedDims(const pt2::Pt2Archive& archive, const ir::Graph& graph,
                           const std::map<std::string, uint32_t>& input_by_path,
                           std::vector<std::string>& specialised) {
  auto it = archive.extras().find("liveshape.json");
  if (it == archive.extras().end()) return {};
  LS_ASSIGN_OR_RETURN(pt2::JsonDocument json, pt2::ParseJson(it->second, "extra/liveshape.json"));
  const pt2::JsonAt root("extra/liveshape.json", json.root);
  LS_ASSIGN_OR_RETURN(auto inputs, root.Find("inputs"));
  if (!inputs) return {};
  LS_ASSIGN_OR_RETURN(const pt2::JsonArray* list, inputs->Array());
  for (size_t i = 0; i < list->size(); ++i) {
    const pt2::JsonAt input = inputs->At(*list, i);
    LS_ASSIGN_OR_RETURN(std::string name, pt2::ReadMember(input, "name", pt2::ReadString));
    LS_ASSIGN_OR_RETURN(auto shape, input.Find("shape"));
    auto found = input_by_path.find(name);
    if (!shape || found == input_by_path.end() || graph.inputs[found->second].value == ir::kNoValue)
      continue;
    const ir::Dims& dims = graph.type(graph.inputs[found->second].value).dims;
    LS_ASSIGN_OR_RETURN(const pt2::JsonArray* sizes, shape->Array());
    for (size_t d = 0; d < std::min(sizes->size(), dims.size()); ++d) {
      const auto wanted = shape->At(*sizes, d).String();
      if (wanted.ok() && dims[d].is_int())
        specialised.push_back(fmt::format("`{}.{}` was to be {}, torch fixed it at {}", name, d,
                                          *wanted, dims[d].value()));
    }
  }
  return {};
}

std::vector<SymbolRow> EntryPoints(const ir::Graph& graph) {
  std::vector<SymbolRow> rows;
  for (uint32_t s = 0; s < graph.table().symbols().size(); ++s) rows.push_back({s, {}});
  for (const ir::Input& input : graph.inputs) {
    if (input.scalar && input.scalar.is_symbol())
      rows[input.scalar.symbol()].enters.push_back(input.name);
    if (input.value == ir::kNoValue) continue;
    const ir::Dims& dims = graph.type(input.value).dims;
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i].is_symbol())
        rows[dims[i].symbol()].enters.push_back(fmt::format("{}.{}", input.name, i));
  }
  for (const ir::HostValue& host : graph.host_values)
    rows[host.symbol].enters.push_back(fmt::format("{}[{}]",
                                                   host.source == ir::Origin::kInput
                                                       ? graph.inputs[host.index].name
                                                       : graph.states[host.index].name,
                                                   sym::ToString(host.element)));
  for (const ir::Node& node : graph.nodes)
    if (node.op->gives_symbol)
      rows[static_cast<size_t>(node.Int("symbol"))].enters.push_back(
          fmt::format("born at {}", node.name));
  return rows;
}

void ShapeSampler::Prepare() {
  const auto& symbols = graph_.table().symbols();
  const size_t known = requirements_.size();
  for (; nodes_seen_ < graph_.nodes.size(); ++nodes_seen_)
    if (!ir::AddRequirements(graph_, graph_.nodes[nodes_seen_], requirements_).ok())
      continue;  // no shape serves this node: whoever verifies the graph says so
  while (guards_seen_ < graph_.guards.size())
    requirements_.push_back(graph_.guards[guards_seen_++]);
  if (symbols.size() == symbols_seen_ && requirements_.size() == known && !points_.empty()) return;
  symbols_seen_ = symbols.size();
  points_.clear();
  std::mt19937_64 random(20);  // fixed: an import must not depend on luck
  for (int draw = 0; draw < 2048 && points_.size() < 64; ++draw) {
    std::vector<int64_t> point;
    for (const sym::SymbolInfo& s : symbols) {
      const int64_t lo = std::max<int64_t>(2, s.lo);
      int64_t hi = std::max(lo, std::min(s.hi, lo > Interval::kPosInf - 60 ? lo : lo + 60));
      point.push_back(lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1)));
      if (draw % 2)
        point.back() = std::min(s.hi, point.back() / 8 * 8 + (lo <= 8 ? 8 : lo));  // multiples
    }
    const auto holds = [&](const ir::Guard& guard) {
      const auto value = graph_.table().Evaluate(guard.condition, point);
      return value.ok() && *value != 0;
    };
    if (std::ranges::all_of(requirements_, holds)) points_.push_back(std::move(point));
  }
}

std::string ShapeSampler::FirstDifference(const ir::Dims& ours, const ir::Dims& theirs) {
  if (ours == theirs) return {};
  if (ours.size() != theirs.size())
    return fmt::format("rank {} against {}", ours.size(), theirs.size());
  Prepare();
  unchecked_ = unchecked_ || points_.empty();
  const sym::Table& table = graph_.table();
  for (const std::vector<int64_t>& point : points_)
    for (size_t i = 0; i < ours.size(); ++i) {
      if (ours[i] == theirs[i]) continue;
      auto a = table.Evaluate(ours[i], point), b = table.Evaluate(theirs[i], point);
      if (a.ok() && b.ok() && *a == *b) continue;
      std::string at;
      for (size_t s = 0; s < point.size(); ++s)
        at += fmt::format("{}{}={}", at.empty() ? "" : ", ", table.symbols()[s].name, point[s]);
      return fmt::format("dim {} is {} by our rule, {} in the export, at {}", i,
                         sym::ToString(ours[i]), sym::ToString(theirs[i]), at);
    }
  return {};
}

}  // namespace liveshape::import
