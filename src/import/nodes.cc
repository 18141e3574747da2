#include <algorithm>
#include <array>

#include "import/importer.h"
#include "ops/ops.h"
#include "sym/parse.h"

namespace liveshape::import {

std::string ShortTarget(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  return std::string(target);
}

bool MayAlias(std::string_view target) {
  const ops::AtenForm* form = ops::FindForm(target);
  return form != nullptr && form->aliases;
}

namespace {
constexpr std::string_view kItems[] = {"aten.item.default", "aten._local_scalar_dense.default"};
constexpr std::string_view kAssertScalar = "aten._assert_scalar.default";
// Without effect on values: ranges are in the program, metadata asserts are checked by CheckType.
constexpr std::string_view kNoOps[] = {
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
    "aten._assert_async.msg",
};

// Random numbers. Torch keeps a draw that nobody reads, as layer drop makes outside of training: that is all we take.
constexpr std::string_view kDraws[] = {"aten.rand.default", "aten.rand_like.default",
                                       "aten.randn.default", "aten.randn_like.default"};

bool IsDraw(std::string_view target) {
  return std::find(std::begin(kDraws), std::end(kDraws), target) != std::end(kDraws);
}

bool IsNoOp(std::string_view target) {
  return std::ranges::find(kNoOps, target) != std::end(kNoOps);
}
}  // namespace

bool IsItem(std::string_view target) {
  return std::ranges::find(kItems, target) != std::end(kItems);
}

const WrapperOp* FindWrapper(std::string_view target) {
  static constexpr WrapperOp kWrappers[] = {
      {"higher_order.wrap_with_set_grad_enabled", 1},
      {"higher_order.wrap_with_autocast", 4},
  };
  for (const WrapperOp& w : kWrappers)
    if (target == w.target) return &w;
  return nullptr;
}

namespace {

// Python's arithmetic on sizes, recomputed by us so that it is right at 0 and 1 as well.
using Fold = Expr (*)(std::span<const Expr>);
Fold FindScalarOp(std::string_view target) {
  struct Row {
    std::string_view name;
    Fold fold;
  };
  static constexpr Row kRows[] = {
      {"_operator.add", [](std::span<const Expr> a) { return a[0] + a[1]; }},
      {"_operator.sub", [](std::span<const Expr> a) { return a[0] - a[1]; }},
      {"_operator.mul", [](std::span<const Expr> a) { return a[0] * a[1]; }},
      {"_operator.floordiv", [](std::span<const Expr> a) { return sym::FloorDiv(a[0], a[1]); }},
      {"_operator.mod", [](std::span<const Expr> a) { return sym::Mod(a[0], a[1]); }},
      {"_operator.eq", [](std::span<const Expr> a) { return sym::Eq(a[0], a[1]); }},
      {"_operator.ne", [](std::span<const Expr> a) { return sym::Ne(a[0], a[1]); }},
      {"_operator.lt", [](std::span<const Expr> a) { return sym::Lt(a[0], a[1]); }},
      {"_operator.le", [](std::span<const Expr> a) { return sym::Le(a[0], a[1]); }},
      {"_operator.gt", [](std::span<const Expr> a) { return sym::Gt(a[0], a[1]); }},
      {"_operator.ge", [](std::span<const Expr> a) { return sym::Ge(a[0], a[1]); }},
      {"_operator.and_", [](std::span<const Expr> a) { return sym::And(a[0], a[1]); }},
      {"_operator.or_", [](std::span<const Expr> a) { return sym::Or(a[0], a[1]); }},
      {"torch.sym_max", [](std::span<const Expr> a) { return sym::Max(a[0], a[1]); }},
      {"torch.sym_min", [](std::span<const Expr> a) { return sym::Min(a[0], a[1]); }},
  };
  for (const Row& row : kRows)
    if (row.name == target) return row.fold;
  return nullptr;
}

bool IsScalarTarget(std::string_view target) {
  return target.starts_with("_operator.") || target.starts_with("torch.sym_") ||
         target.starts_with("math.") || target.starts_with("aten.sym_") ||
         target.starts_with("builtins.");
}

// "aten.add_.Tensor" -> "aten.add.Tensor"; empty if the op does not write in place.
std::string FunctionalTarget(std::string_view target) {
  const size_t dot = target.rfind('.');
  if (!target.starts_with("aten.") || dot == target.npos || dot < 6 || target[dot - 1] != '_')
    return {};
  std::string functional(target);
  functional.erase(dot - 1, 1);
  return ops::FindForm(target) ? std::string() : functional;
}

}  // namespace

void Importer::CollectUnknown(const pt2::Graph& graph, std::vector<std::string>& unknown) {
  for (const pt2::Node& node : graph.nodes) {
    const std::string target = ShortTarget(node.target);
    if (FindWrapper(target)) {
      for (const pt2::NamedArg& arg : node.inputs)
        if (auto inner = arg.arg.graph()) CollectUnknown(*inner, unknown);
      continue;
    }
    if (IsSupportedTarget(target) || IsDraw(target)) continue;
    const std::string where = node.source.str();
    unknown.push_back(
        fmt::format("  {}  node `{}`{}{}", target, node.name, where.empty() ? "" : " at ", where));
  }
}

Status Importer::CheckTargets(const pt2::Graph& graph) {
  std::vector<std::string> unknown;
  CollectUnknown(graph, unknown);
  if (unknown.empty()) return {};
  std::string list;
  for (const std::string& line : unknown) list += "\n" + line;
  return Unsupported("{} node{} of the program {} an op that Liveshape does not have:{}",
                     unknown.size(), unknown.size() == 1 ? "" : "s",
                     unknown.size() == 1 ? "is" : "are", list);
}

template <typename T>
Result<Expr> Importer::ToExpr(const pt2::SymValue<T>& value) {
  if (value.is_expr()) {
    LS_ASSIGN_OR_RETURN(Expr e, sym::ParseSrepr(table(), value.expr));
    if (named_.empty()) return e;
    return table().Substitute(e, [&](uint32_t symbol) -> std::optional<Expr> {
      const auto it = named_.find(symbol);
      return it == named_.end() ? std::nullopt : std::optional(it->second);
    });
  }
  if constexpr (std::is_same_v<T, double>)
    return table().Float(value.value);
  else
    return table().Int(static_cast<int64_t>(value.value));
}
template Result<Expr> Importer::ToExpr(const pt2::SymInt&);
template Result<Expr> Importer::ToExpr(const pt2::SymBool&);
template Result<Expr> Importer::ToExpr(const pt2::SymFloat&);

Result<ir::TensorType> Importer::TypeOf(const pt2::TensorMeta& meta) {
  ir::TensorType type;
  LS_ASSIGN_OR_RETURN(type.dtype, ToDType(meta.dtype));
  for (const pt2::SymInt& size : meta.sizes) {
    LS_ASSIGN_OR_RETURN(Expr e, ToExpr(size));
    type.dims.push_back(e);
  }
  return type;
}

Result<Expr> Importer::Scalar(Env& env, std::string_view name) {
  if (auto it = env.scalars.find(name); it != env.scalars.end()) return it->second;
  // Not computed by us: the exporter's own expression for it.
  Result<Expr> e = NotFound("symbolic value `{}` has no definition", name);
  if (auto it = env.graph.sym_int_values.find(name); it != env.graph.sym_int_values.end())
    e = ToExpr(it->second);
  else if (auto b = env.graph.sym_bool_values.find(name); b != env.graph.sym_bool_values.end())
    e = ToExpr(b->second);
  else if (auto f = env.graph.sym_float_values.find(name); f != env.graph.sym_float_values.end())
    e = ToExpr(f->second);
  if (e.ok()) env.scalars[std::string(name)] = *e;
  return e;
}

Result<ir::ValueId> Importer::ReadTensor(Env& env, std::string_view name) {
  auto it = env.tensors.find(name);
  if (it == env.tensors.end()) {
    for (const pt2::Node& node : env.graph.nodes)
      for (size_t i = 0; i < node.outputs.size(); ++i)
        if (node.outputs[i].value_name() == name)
          return Unsupported("node `{}` ({}): output {}, `{}`, is read, but not served", node.name,
                             node.target, i, name);
    return Unsupported("`{}` is read, but nothing gives it", name);
  }
  return store_.Read(it->second);
}

namespace {

// Of all results, those in lists too; empty for one that is no tensor.
std::vector<std::string> TensorNames(const pt2::Node& node) {
  std::vector<std::string> names;
  for (const pt2::Arg& out : node.outputs) {
    if (auto list = out.tensors())
      names.insert(names.end(), list->begin(), list->end());
    else
      names.push_back(out.tensor() ? std::string(*out.tensor()) : std::string());
  }
  return names;
}

}  // namespace

Result<ops::AtenValue> Importer::ToAten(Env& env, const pt2::Arg& arg) {
  if (arg.is_none() || arg.Is<pt2::Device>() || arg.Is<pt2::MemoryFormat>() ||
      arg.Is<pt2::Layout>())
    return ops::
        AtenValue();  // where a tensor lives and how it is laid out does not change its values
  if (auto name = arg.tensor()) {
    LS_ASSIGN_OR_RETURN(ir::ValueId v, ReadTensor(env, *name));
    return ops::AtenValue(v);
  }
  if (auto names = arg.tensors()) {
    std::vector<ir::ValueId> list;
    for (const std::string& name : *names) {
      list.push_back(ir::kNoValue);
      if (!name.empty()) {
        LS_ASSIGN_OR_RETURN(list.back(), ReadTensor(env, name));
      }
    }
    return ops::AtenValue(std::move(list));
  }
  if (auto* b = arg.As<bool>()) return ops::AtenValue(*b);
  if (auto* d = arg.As<double>()) return ops::AtenValue(*d);
  if (auto* ds = arg.As<std::vector<double>>()) return ops::AtenValue(*ds);
  if (auto s = arg.string()) return ops::AtenValue(std::string(*s));
  if (auto* t = arg.As<pt2::ScalarType>()) {
    LS_ASSIGN_OR_RETURN(DType dtype, ToDType(*t));
    return ops::AtenValue(dtype);
  }
  auto scalar = [&](const auto& a) -> Result<Expr> {
    if (a.is_name()) return Scalar(env, a.name);
    using T = std::decay_t<decltype(a.value)>;
    if constexpr (std::is_same_v<T, double>)
      return table().Float(a.value);
    else
      return table().Int(static_cast<int64_t>(a.value));
  };
  if (auto i = arg.sym_int()) {
    LS_ASSIGN_OR_RETURN(Expr e, scalar(*i));
    return ops::AtenValue(e);
  }
  if (auto is = arg.sym_ints()) {
    std::vector<Expr> list;
    for (const pt2::SymIntArg& i : *is) {
      LS_ASSIGN_OR_RETURN(Expr e, scalar(i));
      list.push_back(e);
    }
    return ops::AtenValue(std::move(list));
  }
  if (auto* f = arg.As<pt2::SymFloatArg>()) {
    if (!f->is_name()) return ops::AtenValue(f->value);
    LS_ASSIGN_OR_RETURN(Expr e, scalar(*f));
    return ops::AtenValue(e);
  }
  if (auto* b = arg.As<pt2::SymBoolArg>()) {
    if (!b->is_name()) return ops::AtenValue(b->value);
    LS_ASSIGN_OR_RETURN(Expr e, scalar(*b));
    return ops::AtenValue(e);
  }
  return Unsupported("an argument that is {}", arg.kind());
}

Result<ops::AtenCall> Importer::MakeCall(Env& env, const pt2::Node& node,
                                         const std::string& target) {
  std::map<std::string, ops::AtenValue, std::less<>> args;
  for (const pt2::NamedArg& arg : node.inputs) {
    auto value = ToAten(env, arg.arg);
    if (!value.ok())
      return std::move(value).status().Prefixed(fmt::format("argument `{}`", arg.name));
    if (!args.emplace(arg.name, *std::move(value)).second)
      return DataLoss("argument `{}` is given twice", arg.name);
  }
  ops::AtenCall call(*graph_, target, node.name, node.source.str(), std::move(args));
  std::vector<ir::Dims> exported;
  for (const std::string& name : TensorNames(node)) {
    const pt2::TensorMeta* meta = env.graph.FindTensor(name);
    exported.emplace_back();
    if (meta) {
      LS_ASSIGN_OR_RETURN(ir::TensorType type, TypeOf(*meta));
      exported.back() = std::move(type.dims);
    }
  }
  call.SetExportedDims(std::move(exported));
  return call;
}

Status Importer::ImportNodes(Env& env) {
  if (!sampler_) sampler_ = std::make_unique<ShapeSampler>(*graph_);
  for (const pt2::Node& node : env.graph.nodes)
    if (Status s = ImportNode(env, node); !s.ok()) return std::move(s).Prefixed(node.Describe());
  return {};
}

Status Importer::ImportNode(Env& env, const pt2::Node& node) {
  const std::string target = ShortTarget(node.target);
  if (IsNoOp(target) || IsDraw(target)) return {};
  if (const WrapperOp* wrapper = FindWrapper(target)) return ImportWrapper(env, node, *wrapper);
  if (IsItem(target)) return ImportItem(env, node);
  if (target == kAssertScalar) {
    const pt2::Arg* condition = node.Find("self");
    if (condition == nullptr) return {};
    LS_ASSIGN_OR_RETURN(ops::AtenValue value, ToAten(env, *condition));
    if (auto* e = std::get_if<Expr>(&value); e && !e->is_int()) {
      const pt2::Arg* text = node.Find("assert_msg");
      graph_->guards.push_back(
          {*e, text && text->string() ? std::string(*text->string())
                                      : fmt::format("the program requires {}", sym::ToString(*e))});
    }
    return {};
  }
  bool handled = false;
  LS_RETURN_IF_ERROR(ImportScalarNode(env, node, target, &handled));
  return handled ? Status() : ImportAten(env, node, target);
}

Status Importer::ImportScalarNode(Env& env, const pt2::Node& node, const std::string& target,
                                  bool* handled) {
  *handled = IsScalarTarget(target);
  if (!*handled || node.outputs.empty()) return {};
  const std::string out(node.outputs[0].value_name());
  if (target.starts_with("aten.sym_size") && node.inputs.size() == 2 &&
      node.inputs[0].arg.tensor()) {
    LS_ASSIGN_OR_RETURN(ir::ValueId x, ReadTensor(env, *node.inputs[0].arg.tensor()));
    const ir::Dims& dims = graph_->type(x).dims;
    const std::optional<int64_t> given = node.inputs[1].arg.integer();
    if (!given) return InvalidArgument("argument `dim` should be an integer");
    int64_t dim = *given;
    if (dim < 0) dim += static_cast<int64_t>(dims.size());
    if (dim < 0 || dim >= static_cast<int64_t>(dims.size()))
      return InvalidArgument("dim {} out of range", dim);
    env.scalars[out] = dims[static_cast<size_t>(dim)];
    return {};
  }
  Fold fold = FindScalarOp(target);
  if (fold == nullptr || node.inputs.size() != 2)
    return {};  // Scalar() will take the exporter's expression
  std::array<Expr, 2> operands;
  for (size_t i = 0; i < 2; ++i) {
    LS_ASSIGN_OR_RETURN(ops::AtenValue value, ToAten(env, node.inputs[i].arg));
    const Expr* e = std::get_if<Expr>(&value);
    if (e == nullptr || e->is_float_valued()) return {};
    operands[i] = *e;
  }
  env.scalars[out] = fold(operands);
  return {};
}

// item() of an integer input or state is a host value: known before the first kernel. Of anything else it
// is known when the run gets there.
Status Importer::ImportItem(Env& env, const pt2::Node& node) {
  if (node.outputs.empty() || node.inputs.empty())
    return DataLoss("item() without an operand or a result");
  LS_ASSIGN_OR_RETURN(Expr number, Scalar(env, node.outputs[0].value_name()));
  LS_ASSIGN_OR_RETURN(ir::ValueId x, ReadTensor(env, node.inputs[0].arg.tensor().value_or("")));
  if (IsFloat(graph_->type(x).dtype))
    return Unsupported(
        "item() of a float tensor: only integers become sizes; as a number, keep it a tensor: "
        "x * t, not x * t.item()");
  // Of a bool, torch makes `u0 == 1`. Where it has found out what the number is equal to (a size, 4, the number of an
  // earlier item), that is what it says, and what the data must be: the number gets a symbol of its own to compare.
  const std::vector<uint32_t> free = table().FreeSymbols(number);
  uint32_t symbol = free.empty() ? 0 : free[0];
  const bool named =
      free.size() == 1 && ops::AwaitsData(*graph_, symbol) &&
      (number.is_symbol() || number == sym::Eq(table().SymbolAt(symbol), table().Int(1)));
  if (!named) {
    std::string name = node.name;
    while (table().FindSymbol(name)) name += '_';
    const Expr own = table().Symbol({.name = name, .lo = sym::Interval::kNegInf, .stage = 1});
    symbol = own.symbol();
    claims_.push_back(
        {sym::Eq(own, number), fmt::format("node `{}`: the program requires that item() is {}",
                                           node.name, sym::ToString(number))});
  }
  const std::vector<uint32_t> producers = graph_->Producers();
  const ir::ValueId root = ir::RootOfViews(*graph_, producers, x);
  const ir::Value& value = graph_->value(root);
  const auto layout = ir::LayoutInBase(*graph_, producers, root, x);
  if ((value.origin == ir::Origin::kInput || value.origin == ir::Origin::kState) &&
      IsInteger(value.type.dtype) && layout) {
    graph_->host_values.push_back({symbol, value.origin, value.index, layout->offset});
    return {};
  }
  LS_ASSIGN_OR_RETURN(ops::AtenCall call, MakeCall(env, node, ShortTarget(node.target)));
  call.GiveSymbol(symbol, call.Reshape(x, {}));
  return call.status();
}

Status Importer::ImportWrapper(Env& env, const pt2::Node& node, const WrapperOp& wrapper) {
  std::shared_ptr<const pt2::Graph> inner;
  if (node.inputs.size() > wrapper.graph_arg) inner = node.inputs[wrapper.graph_arg].arg.graph();
  if (inner == nullptr || node.inputs.size() < wrapper.graph_arg + 1 + inner->inputs.size())
    return DataLoss("a wrapped graph with too few operands");
  Env scope{*inner, {}, {}};
  for (size_t i = 0; i < inner->inputs.size(); ++i) {
    const pt2::Arg& operand = node.inputs[wrapper.graph_arg + 1 + i].arg;
    const std::string name(inner->inputs[i].value_name());
    if (auto tensor = operand.tensor()) {
      auto it = env.tensors.find(*tensor);
      if (it == env.tensors.end()) return DataLoss("operand `{}` is not defined", *tensor);
      scope.tensors[name] = it->second;  // the same tensor: writes inside are seen outside
    } else {
      LS_ASSIGN_OR_RETURN(ops::AtenValue value, ToAten(env, operand));
      if (auto* e = std::get_if<Expr>(&value)) scope.scalars[name] = *e;
    }
  }
  LS_RETURN_IF_ERROR(ImportNodes(scope));
  std::vector<std::string> names;
  for (const pt2::Arg& out : node.outputs) {
    if (auto list = out.tensors())
      names.insert(names.end(), list->begin(), list->end());
    else
      names.push_back(std::string(out.value_name()));
  }
  if (names.size() > inner->outputs.size()) return DataLoss("a wrapped graph with too few outputs");
  for (size_t i = 0; i < names.size(); ++i) {
    const pt2::Arg& result = inner->outputs[i];
    if (auto tensor = result.tensor()) {
      auto it = scope.tensors.find(*tensor);
      if (it == scope.tensors.end()) return DataLoss("output `{}` is not defined", *tensor);
      env.tensors[names[i]] = it->second;
    } else if (auto it = scope.scalars.find(result.value_name()); it != scope.scalars.end()) {
      env.scalars[names[i]] = it->second;
    }
  }
  return {};
}

// Where torch cannot tell the size of a view it makes a symbol of it (u1 of `x[n.item():]`), which no node gives a
// value: it is another name of what our rule says.
void Importer::NameSizes(const ir::Dims& ours, ir::Dims& exported) {
  if (ours.size() != exported.size()) return;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i] == exported[i] || !exported[i].is_symbol()) continue;
    const uint32_t symbol = exported[i].symbol();
    const auto gives = [&](const ir::Node& node) {
      return node.op->gives_symbol && node.Int("symbol") == symbol;
    };
    if (table().symbols()[symbol].stage < 2 || std::ranges::any_of(graph_->nodes, gives)) continue;
    named_[symbol] = exported[i] = ours[i];
  }
}

Status Importer::CheckType(const Env& env, const std::string& name, ir::ValueId value) {
  const pt2::TensorMeta* meta = env.graph.FindTensor(name);
  if (meta == nullptr) return {};
  LS_ASSIGN_OR_RETURN(ir::TensorType exported, TypeOf(*meta));
  const ir::TensorType& ours = graph_->type(value);
  if (ours.dtype != exported.dtype)
    return Internal("`{}` is {} by our rule, {} in the export", name, Name(ours.dtype),
                    Name(exported.dtype));
  NameSizes(ours.dims, exported.dims);
  if (std::string difference = sampler_->FirstDifference(ours.dims, exported.dims);
      !difference.empty())
    return Internal("`{}`: {}", name, difference);
  return {};
}

Status Importer::BindOutputs(Env& env, const pt2::Node& node,
                             const std::vector<ir::ValueId>& values) {
  const std::vector<std::string> names = TensorNames(node);
  if (names.size() > values.size())
    return Internal("{} outputs are expected, the form gave {}", names.size(), values.size());

  const std::string target = ShortTarget(node.target);
  const pt2::Arg* self = node.inputs.empty() ? nullptr : &node.inputs[0].arg;
  const bool aliases = self && self->tensor() && MayAlias(target);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || values[i] == ir::kNoValue) continue;
    LS_RETURN_IF_ERROR(CheckType(env, names[i], values[i]));
    const TensorId parent = aliases ? env.tensors.find(*self->tensor())->second : 0;
    std::optional<ir::Layout> layout;
    if (aliases) layout = store_.LayoutInBase(values[i], parent);
    // contiguous() of something that is not makes a copy.
    if (layout && target == "aten.contiguous.default" &&
        !ir::IsContiguous(*layout, graph_->type(values[i]).dims))
      layout.reset();
    if (!layout) {
      env.tensors[names[i]] = store_.AddBase(values[i]);
      continue;
    }
    // Sizes and indices do not change when the base is written to, so the call is repeated as it was.
    const pt2::Node* origin = &node;
    Env* scope = &env;
    env.tensors[names[i]] = store_.AddView(
        parent, values[i], [this, scope, origin, target, i](ir::ValueId) -> Result<ir::ValueId> {
          LS_ASSIGN_OR_RETURN(ops::AtenCall call, MakeCall(*scope, *origin, target));
          std::vector<ir::ValueId> again = ops::FindForm(target)->build(call);
          if (!call.ok()) return call.status();
          if (i >= again.size())
            return Internal("a view that gave {} outputs gave {} again", i + 1, again.size());
          return again[i];
        });
  }
  return {};
}

Status Importer::ImportAten(Env& env, const pt2::Node& node, const std::string& target) {
  const std::string functional = FunctionalTarget(target);
  const ops::AtenForm* form = ops::FindForm(functional.empty() ? target : functional);
  if (form == nullptr) return Unsupported("no such op");
  LS_ASSIGN_OR_RETURN(ops::AtenCall call,
                      MakeCall(env, node, functional.empty() ? target : functional));
  std::vector<ir::ValueId> values = form->build(call);
  LS_RETURN_IF_ERROR(call.status());
  if (std::vector<std::string> unread = call.Unread(); !unread.empty())
    return Unsupported("argument `{}` is not served", unread[0]);
  if (functional.empty()) return BindOutputs(env, node, values);

  if (node.inputs.empty() || values.empty())
    return DataLoss("an in-place op without an operand or a result");
  const std::string_view self = node.inputs[0].arg.tensor().value_or("");
  auto it = env.tensors.find(self);
  if (it == env.tensors.end()) return DataLoss("`{}` is not defined", self);
  const TensorId written = it->second;
  LS_RETURN_IF_ERROR(store_.Write(call, written, values[0]));
  for (const pt2::Arg& out : node.outputs)
    if (out.tensor()) env.tensors[std::string(*out.tensor())] = written;
  return {};
}

}  // namespace liveshape::import

namespace liveshape {

bool IsSupportedTarget(std::string_view long_target) {
  using namespace import;
  const std::string target = ShortTarget(long_target);
  return FindWrapper(target) || IsScalarTarget(target) || IsNoOp(target) || IsItem(target) ||
         target == kAssertScalar || ops::FindForm(target) ||
         ops::FindForm(FunctionalTarget(target));
}

std::vector<std::string> SupportedTargets() {
  using namespace import;
  std::vector<std::string> targets = {fmt::format("torch.ops.{}", kAssertScalar)};
  for (const std::string_view target : kItems)
    targets.push_back(fmt::format("torch.ops.{}", target));
  for (const std::string_view target : kNoOps)
    targets.push_back(fmt::format("torch.ops.{}", target));
  for (const ops::AtenForm* form : ops::AllForms())
    targets.push_back(fmt::format("torch.ops.{}", form->target));
  std::ranges::sort(targets);
  return targets;
}

}  // namespace liveshape
