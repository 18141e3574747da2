#include "artifact/load.h"

#include <bit>
#include <cstring>

#include "artifact/bytes.h"
#include "artifact/format.h"
#include "artifact/load_expressions.h"
#include "ir/op.h"
#include "liveshape_generated.h"
#include "ops/ops.h"

namespace liveshape::artifact {
namespace {

static_assert(std::endian::native == std::endian::little, "constants are used in place");

using flatbuffers::Vector;
using ir::ValueId;
using sym::Expr;

constexpr uint32_t kNone = ~0u;

class Loader {
 public:
  Loader(const fbs::Model& model, size_t graph_bytes, Bytes constants)
      : model_(model),
        constants_(std::move(constants)),
        // An honest file repeats names (shared strings) a few times; a hostile one could point to one
        // long string a million times.
        copies_left_(graph_bytes * 16 + 65536),
        max_terms_(graph_bytes / 2 + 4096),
        graph_(std::make_unique<ir::Graph>()) {}

  Result<std::unique_ptr<ir::Graph>> Run() {
    LS_RETURN_IF_ERROR(LoadSymbols(model_, graph_->table()));
    LS_ASSIGN_OR_RETURN(exprs_, LoadExpressions(model_, graph_->table(), max_terms_));
    graph_->name = Text(model_.name());
    LS_RETURN_IF_ERROR(LoadAll(model_.values(), "value"));
    LS_RETURN_IF_ERROR(LoadAll(model_.inputs(), "input"));
    LS_RETURN_IF_ERROR(LoadAll(model_.constants(), "constant"));
    LS_RETURN_IF_ERROR(LoadAll(model_.states(), "state"));
    LS_RETURN_IF_ERROR(LoadAll(model_.nodes(), "node"));
    LS_RETURN_IF_ERROR(LoadAll(model_.outputs(), "output"));
    LS_RETURN_IF_ERROR(LoadAll(model_.host_values(), "host value"));
    LS_RETURN_IF_ERROR(LoadAll(model_.guards(), "guard"));
    if (copies_left_ == 0) return DataLoss("the graph repeats its parts out of all proportion");
    return std::move(graph_);
  }

 private:
  Status Load(const fbs::Value& value);
  Status Load(const fbs::Input& input);
  Status Load(const fbs::Output& output);
  Status Load(const fbs::Constant& constant);
  Status Load(const fbs::State& state);
  Status Load(const fbs::Node& node);
  Status Load(const fbs::HostValue& host);
  Status Load(const fbs::Guard& guard);

  template <typename T>
  Status LoadAll(const Vector<flatbuffers::Offset<T>>* list, const char* what) {
    for (uint32_t i = 0; list && i < list->size() && copies_left_ > 0; ++i) {
      Status status = Load(*list->Get(i));
      if (!status.ok()) return std::move(status).Prefixed(fmt::format("{} {}", what, i));
    }
    return {};
  }

  // False, and then for good, when the file has spent what it may make us copy.
  bool Spend(size_t bytes) {
    copies_left_ -= std::min(copies_left_, bytes);
    return copies_left_ > 0;
  }

  std::string Text(const flatbuffers::String* text) {
    return text && Spend(text->size()) ? text->str() : std::string();
  }

  // By memcpy: the verifier checks that the elements are inside the buffer, not that they are aligned.
  template <typename T, typename Element>
  std::vector<T> Copy(const Vector<Element>* list) {
    std::vector<T> copy;
    if (!list || list->size() == 0 || !Spend(list->size() * sizeof(T))) return copy;
    copy.resize(list->size());
    std::memcpy(static_cast<void*>(copy.data()), list->Data(), copy.size() * sizeof(T));
    return copy;
  }

  Result<Expr> ExprAt(uint32_t index) const {
    if (index >= exprs_.size())
      return DataLoss("refers to expression {} of {}", index, exprs_.size());
    return exprs_[index];
  }

  Result<std::vector<Expr>> ExprsAt(const Vector<uint32_t>* indices) {
    std::vector<Expr> list;
    for (uint32_t index : Copy<uint32_t>(indices)) {
      LS_ASSIGN_OR_RETURN(Expr e, ExprAt(index));
      list.push_back(e);
    }
    return list;
  }

  Status CheckValue(ValueId id) const {
    if (id < graph_->values.size()) return {};
    return DataLoss("refers to value {} of {}", id, graph_->values.size());
  }

  // Makes `id` the value of an input, constant or state; it may be that of one only.
  Status Claim(ValueId id, ir::Origin origin, size_t index) {
    LS_RETURN_IF_ERROR(CheckValue(id));
    ir::Value& value = graph_->values[id];
    if (value.origin != ir::Origin::kNode)
      return DataLoss("value {} belongs to something else already", id);
    value.origin = origin;
    value.index = static_cast<uint32_t>(index);
    return {};
  }

  // Dims of a constant or a state: numbers.
  Result<std::vector<int64_t>> FixedDims(ValueId id) const {
    std::vector<int64_t> dims;
    for (Expr dim : graph_->type(id).dims) {
      if (!dim.is_int()) return DataLoss("has the dim {}, not a number", sym::ToString(dim));
      dims.push_back(dim.value());
    }
    return dims;
  }

  Result<std::span<const std::byte>> Stored(uint64_t offset, uint64_t size) const {
    const size_t total = constants_.data.size();
    if (offset > total || size > total - offset || offset % kAlignment != 0)
      return DataLoss("lies at {} + {} of a constant segment of {} bytes", offset, size, total);
    return constants_.data.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
  }

  // A tensor or an integer: exactly one of the two.
  Status LoadPort(uint32_t value, uint32_t scalar, Expr* expr) const {
    if ((value == kNone) == (scalar == kNone))
      return DataLoss("must be a tensor or an integer, and is both or neither");
    if (scalar == kNone) return CheckValue(value);
    LS_ASSIGN_OR_RETURN(*expr, ExprAt(scalar));
    return {};
  }

  Result<ir::Attr> LoadAttr(const fbs::Attr& attr);
  Result<ir::PointwiseProgram> LoadProgram(const fbs::ProgramAttr& attr);

  const fbs::Model& model_;
  Bytes constants_;
  size_t copies_left_;
  size_t max_terms_;
  std::unique_ptr<ir::Graph> graph_;
  std::vector<Expr> exprs_;
};

Status Loader::Load(const fbs::Value& value) {
  if (value.dtype() > fbs::DType::MAX)
    return DataLoss("has dtype {}, which does not exist", static_cast<int>(value.dtype()));
  LS_ASSIGN_OR_RETURN(ir::Dims dims, ExprsAt(value.dims()));
  if (dims.size() > kMaxRank) return DataLoss("has rank {}; {} at most", dims.size(), kMaxRank);
  graph_->AddValue(Text(value.name()), {static_cast<DType>(value.dtype()), std::move(dims)});
  return {};
}

Status Loader::Load(const fbs::Input& input) {
  ir::Input loaded{.name = Text(input.name()), .value = input.value(), .used = input.used()};
  LS_RETURN_IF_ERROR(LoadPort(input.value(), input.scalar(), &loaded.scalar));
  if (loaded.value != kNone)
    LS_RETURN_IF_ERROR(Claim(loaded.value, ir::Origin::kInput, graph_->inputs.size()));
  graph_->inputs.push_back(std::move(loaded));
  return {};
}

Status Loader::Load(const fbs::Output& output) {
  ir::Output loaded{.name = Text(output.name()), .value = output.value()};
  LS_RETURN_IF_ERROR(LoadPort(output.value(), output.scalar(), &loaded.scalar));
  graph_->outputs.push_back(std::move(loaded));
  return {};
}

Status Loader::Load(const fbs::Constant& constant) {
  if (constant.encoding() > fbs::Encoding::MAX || constant.layout() > fbs::Layout::MAX)
    return DataLoss("has encoding {} and layout {}, of which one does not exist",
                    static_cast<int>(constant.encoding()), static_cast<int>(constant.layout()));
  const ValueId id = constant.value();
  LS_RETURN_IF_ERROR(Claim(id, ir::Origin::kConstant, graph_->constants.size()));
  ir::Constant loaded{.name = Text(constant.name()),
                      .dtype = graph_->type(id).dtype,
                      .encoding = static_cast<ir::Encoding>(constant.encoding()),
                      .layout = static_cast<ir::ConstantLayout>(constant.layout()),
                      .external = Text(constant.external()),
                      .value = id};
  LS_ASSIGN_OR_RETURN(loaded.dims, FixedDims(id));
  if (loaded.external.empty()) {
    LS_ASSIGN_OR_RETURN(loaded.data, Stored(constant.offset(), constant.size()));
    loaded.owner = constants_.owner;
  } else if (constant.size() != 0) {
    return DataLoss("is external, and cannot have bytes of its own");
  }
  // Its size is compared with its dims by ir::Verify.
  graph_->constants.push_back(std::move(loaded));
  return {};
}

Status Loader::Load(const fbs::State& state) {
  const ValueId id = state.value();
  LS_RETURN_IF_ERROR(Claim(id, ir::Origin::kState, graph_->states.size()));
  ir::State loaded{.name = Text(state.name()),
                   .dtype = graph_->type(id).dtype,
                   .owner = constants_.owner,
                   .value = id,
                   .result = state.result() == kNone ? id : state.result()};
  LS_RETURN_IF_ERROR(CheckValue(loaded.result));
  LS_ASSIGN_OR_RETURN(loaded.dims, FixedDims(id));
  LS_ASSIGN_OR_RETURN(loaded.initial, Stored(state.offset(), state.size()));
  graph_->states.push_back(std::move(loaded));
  return {};
}

Status Loader::Load(const fbs::HostValue& host) {
  if (host.source() > fbs::HostSource::MAX)
    return DataLoss("has source {}, which does not exist", static_cast<int>(host.source()));
  LS_ASSIGN_OR_RETURN(const Expr element, ExprAt(host.element()));
  graph_->host_values.push_back(
      {.symbol = host.symbol(),
       .source = host.source() == fbs::HostSource::State ? ir::Origin::kState : ir::Origin::kInput,
       .index = host.index(),
       .element = element});
  return {};
}

Status Loader::Load(const fbs::Guard& guard) {
  LS_ASSIGN_OR_RETURN(const Expr condition, ExprAt(guard.condition()));
  graph_->guards.push_back({condition, Text(guard.text())});
  return {};
}

Status Loader::Load(const fbs::Node& node) {
  ir::Node loaded{.op = ops::Find(node.op()->string_view()),
                  .name = Text(node.name()),
                  .source = Text(node.source()),
                  .inputs = Copy<ValueId>(node.inputs()),
                  .outputs = Copy<ValueId>(node.outputs())};
  if (!loaded.op)
    return DataLoss("`{}` is a `{}`, an op that this build does not know", loaded.name,
                    Text(node.op()));
  for (ValueId id : loaded.inputs)
    if (id != kNone) LS_RETURN_IF_ERROR(CheckValue(id));
  for (ValueId id : loaded.outputs) LS_RETURN_IF_ERROR(CheckValue(id));
  for (uint32_t i = 0; node.attrs() && i < node.attrs()->size() && copies_left_ > 0; ++i) {
    const fbs::Attr& attr = *node.attrs()->Get(i);
    const std::string name = Text(attr.name());
    auto value = LoadAttr(attr);
    if (!value.ok())
      return std::move(value).status().Prefixed(
          fmt::format("`{}` attribute `{}`", loaded.name, name));
    if (loaded.Has(name)) return DataLoss("`{}` has two attributes `{}`", loaded.name, name);
    loaded.attrs.emplace_back(name, *std::move(value));
  }
  graph_->nodes.push_back(std::move(loaded));
  return {};
}

Result<ir::Attr> Loader::LoadAttr(const fbs::Attr& attr) {
  switch (attr.value_type()) {
    case fbs::AttrValue::IntAttr: return ir::Attr(attr.value_as_IntAttr()->value());
    case fbs::AttrValue::FloatAttr:
      return ir::Attr(std::bit_cast<double>(attr.value_as_FloatAttr()->bits()));
    case fbs::AttrValue::StringAttr: return ir::Attr(Text(attr.value_as_StringAttr()->value()));
    case fbs::AttrValue::IntsAttr:
      return ir::Attr(Copy<int64_t>(attr.value_as_IntsAttr()->value()));
    case fbs::AttrValue::ExprsAttr: {
      LS_ASSIGN_OR_RETURN(std::vector<Expr> list, ExprsAt(attr.value_as_ExprsAttr()->value()));
      return ir::Attr(std::move(list));
    }
    case fbs::AttrValue::ProgramAttr: {
      LS_ASSIGN_OR_RETURN(ir::PointwiseProgram program, LoadProgram(*attr.value_as_ProgramAttr()));
      return ir::Attr(std::move(program));
    }
    default: return DataLoss("has a value of type {}", static_cast<int>(attr.value_type()));
  }
}

Result<ir::PointwiseProgram> Loader::LoadProgram(const fbs::ProgramAttr& attr) {
  ir::PointwiseProgram program;
  for (const fbs::PwInstr& instr : Copy<fbs::PwInstr>(attr.code())) {
    if (instr.op() > fbs::PwOp::MAX || instr.dtype() > fbs::DType::MAX)
      return DataLoss("instruction {} has operation {} and dtype {}, of which one does not exist",
                      program.code.size(), static_cast<int>(instr.op()),
                      static_cast<int>(instr.dtype()));
    program.code.push_back({.op = static_cast<ir::PwOp>(instr.op()),
                            .dtype = static_cast<DType>(instr.dtype()),
                            .a = instr.a(),
                            .b = instr.b(),
                            .c = instr.c(),
                            .imm = instr.imm()});
  }
  LS_ASSIGN_OR_RETURN(program.scalars, ExprsAt(attr.scalars()));
  return program;
}

Result<const fbs::Model*> VerifiedModel(std::span<const std::byte> graph) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 16;  // Model, Node, Attr, its value
  // Our writer shares no table, and the smallest takes eight bytes: more visits mean hostile sharing.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(graph.size() / 8 + 1);
  const auto* data = reinterpret_cast<const uint8_t*>(graph.data());
  flatbuffers::Verifier verifier(data, graph.size(), options);
  if (!fbs::VerifyModelBuffer(verifier))
    return DataLoss("the graph is not a well-formed FlatBuffer ({} bytes)", graph.size());
  return fbs::GetModel(data);
}

// Whatever a reader finds wrong in a file is the file's fault.
Status AsDataLoss(Status status) {
  if (status.code() != Code::kInvalidArgument) return status;
  return Status(Code::kDataLoss, status.message());
}

}  // namespace

Result<std::unique_ptr<ir::Graph>> LoadGraph(std::span<const std::byte> bytes,
                                             std::shared_ptr<const void> owner, LoadInfo* info) {
  LS_ASSIGN_OR_RETURN(const Header header, ReadHeader(bytes));
  Bytes graph{bytes.subspan(header.graph_offset, header.graph_size), owner};
  Bytes constants{bytes.subspan(header.constants_offset, header.constants_size), owner};
  // The file aligns both; memory that holds the file may not.
  const bool aligned = IsAligned(bytes.data());
  if (!aligned) graph = AlignedCopy(graph.data);
  LS_ASSIGN_OR_RETURN(const fbs::Model* model, VerifiedModel(graph.data));
  if (!aligned) constants = AlignedCopy(constants.data);
  if (info) {
    info->major = header.major;
    info->minor = header.minor;
    info->producer = model->producer() ? model->producer()->str() : std::string();
    info->graph_bytes = header.graph_size;
    info->constant_bytes = header.constants_size;
    info->copied_constant_bytes = aligned ? 0 : constants.data.size();
  }
  LS_ASSIGN_OR_RETURN(auto loaded, Loader(*model, graph.data.size(), std::move(constants)).Run());
  LS_RETURN_IF_ERROR(AsDataLoss(ir::Verify(*loaded)));
  return loaded;
}

}  // namespace liveshape::artifact
