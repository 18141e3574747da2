#include "artifact/write.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "artifact/format.h"
#include "base/memory.h"
#include "ir/op.h"
#include "liveshape/version.h"
#include "liveshape_generated.h"

namespace liveshape::artifact {
namespace {

using flatbuffers::Offset;
using ir::ValueId;
using sym::Expr;
using sym::Kind;

constexpr uint32_t kNone = ~0u;

// Where each stored span of bytes goes in the constant segment.
class Segment {
 public:
  uint64_t Place(std::span<const std::byte> data) {
    if (data.empty()) return 0;
    auto [it, added] = offsets_.try_emplace({data.data(), data.size()}, size_);
    if (added) {
      pieces_.push_back(data);
      size_ = AlignUp(size_ + data.size());
    }
    return it->second;
  }
  uint64_t size() const { return size_; }  // a multiple of the alignment
  const std::vector<std::span<const std::byte>>& pieces() const { return pieces_; }

 private:
  std::map<std::pair<const std::byte*, size_t>, uint64_t> offsets_;
  std::vector<std::span<const std::byte>> pieces_;  // in file order
  uint64_t size_ = 0;
};

// Expressions as a list in which arguments come before their users: the order of ids.
class Expressions {
 public:
  void Add(Expr e) {
    if (!e || index_.contains(e.id())) return;
    std::vector<Expr> pending = {e};
    while (!pending.empty()) {
      const Expr next = pending.back();
      pending.pop_back();
      if (!index_.try_emplace(next.id(), 0).second) continue;
      found_.push_back(next);
      for (Expr arg : next.args()) pending.push_back(arg);
    }
  }
  template <typename List>
  void AddAll(const List& list) {
    for (Expr e : list) Add(e);
  }

  Status Finish() {
    std::ranges::sort(found_, {}, &Expr::id);
    std::vector<uint32_t> depth(found_.size(), 1), tree(found_.size(), 1);
    for (uint32_t i = 0; i < found_.size(); ++i) {
      const Expr e = found_[i];
      index_[e.id()] = i;
      for (Expr arg : e.args()) {
        depth[i] = std::max(depth[i], depth[index_.at(arg.id())] + 1);
        tree[i] += tree[index_.at(arg.id())];
      }
      if (depth[i] > kMaxExprDepth || tree[i] > kMaxExprTree || e.args().size() > kMaxExprArgs)
        return Unsupported(
            "a size is an expression of {} nodes, {} deep; an artifact holds {} and {} at most",
            tree[i], depth[i], kMaxExprTree, kMaxExprDepth);
      nodes_.emplace_back(BitsOf(e), static_cast<uint32_t>(args_.size()),
                          static_cast<uint16_t>(e.args().size()),
                          static_cast<fbs::ExprKind>(e.kind()));
      for (Expr arg : e.args()) args_.push_back(index_.at(arg.id()));
    }
    return {};
  }

  uint32_t IndexOf(Expr e) const { return e ? index_.at(e.id()) : kNone; }
  template <typename List>
  std::vector<uint32_t> IndicesOf(const List& list) const {
    std::vector<uint32_t> indices;
    for (Expr e : list) indices.push_back(IndexOf(e));
    return indices;
  }
  const std::vector<fbs::Expr>& nodes() const { return nodes_; }
  const std::vector<uint32_t>& args() const { return args_; }

 private:
  static int64_t BitsOf(Expr e) {
    switch (e.kind()) {
      case Kind::kInt: return e.value();
      case Kind::kSymbol: return e.symbol();
      case Kind::kFloat: return std::bit_cast<int64_t>(e.float_value());
      default: return 0;
    }
  }

  std::unordered_map<uint32_t, uint32_t> index_;  // Expr::id -> position in the file
  std::vector<Expr> found_;
  std::vector<fbs::Expr> nodes_;
  std::vector<uint32_t> args_;
};

class Serializer {
 public:
  explicit Serializer(const ir::Graph& graph) : graph_(graph) {}

  Status Run() {
    NumberValues();
    CollectExpressions();
    LS_RETURN_IF_ERROR(exprs_.Finish());
    builder_.Finish(Model());
    if (builder_.GetSize() > kMaxGraphBytes)
      return Unsupported("the graph needs {} bytes; an artifact holds {} at most",
                         builder_.GetSize(), kMaxGraphBytes);
    header_.graph_size = builder_.GetSize();
    header_.constants_offset = AlignUp(kHeaderSize + header_.graph_size);
    header_.constants_size = segment_.size();
    header_.file_size = header_.constants_offset + header_.constants_size;
    header_.checksum = ChecksumOf(header_, graph_bytes());
    return {};
  }

  const Header& header() const { return header_; }
  const Segment& segment() const { return segment_; }
  std::span<const std::byte> graph_bytes() const {
    return {reinterpret_cast<const std::byte*>(builder_.GetBufferPointer()), builder_.GetSize()};
  }

 private:
  // Values that passes left behind, made by nothing, are not written.
  void NumberValues() {
    number_.assign(graph_.values.size(), kNone);
    std::vector<bool> made(graph_.values.size(), false);
    for (const ir::Input& input : graph_.inputs)
      if (input.value != ir::kNoValue) made[input.value] = true;
    for (const ir::Constant& constant : graph_.constants) made[constant.value] = true;
    for (const ir::State& state : graph_.states) made[state.value] = true;
    for (const ir::Node& node : graph_.nodes)
      for (ValueId id : node.outputs) made[id] = true;
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (!made[id]) continue;
      number_[id] = static_cast<uint32_t>(kept_.size());
      kept_.push_back(id);
    }
  }

  void CollectExpressions() {
    for (ValueId id : kept_) exprs_.AddAll(graph_.type(id).dims);
    for (const ir::Input& input : graph_.inputs) exprs_.Add(input.scalar);
    for (const ir::Output& output : graph_.outputs) exprs_.Add(output.scalar);
    for (const ir::Node& node : graph_.nodes) {
      for (const auto& [name, attr] : node.attrs) {
        if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) exprs_.AddAll(*list);
        if (const auto* p = std::get_if<ir::PointwiseProgram>(&attr)) exprs_.AddAll(p->scalars);
      }
    }
    for (const ir::HostValue& host : graph_.host_values) exprs_.Add(host.element);
    for (const ir::Guard& guard : graph_.guards) exprs_.Add(guard.condition);
  }

  uint32_t Number(ValueId id) const { return id == ir::kNoValue ? kNone : number_[id]; }
  Offset<flatbuffers::String> Text(const std::string& text) {
    return text.empty() ? 0 : builder_.CreateSharedString(text);
  }
  Offset<flatbuffers::Vector<uint32_t>> Numbers(const std::vector<ValueId>& ids) {
    std::vector<uint32_t> numbers;
    for (ValueId id : ids) numbers.push_back(Number(id));
    return builder_.CreateVector(numbers);
  }

  // One table for each entry of a list of the graph.
  template <typename List, typename Create>
  auto Tables(const List& list, Create create) {
    std::vector<decltype(create(*list.begin()))> offsets;
    offsets.reserve(list.size());
    for (const auto& item : list) offsets.push_back(create(item));
    return builder_.CreateVector(offsets);
  }

  Offset<fbs::Model> Model() {
    const auto symbols = Tables(graph_.table().symbols(), [&](const sym::SymbolInfo& symbol) {
      return fbs::CreateSymbol(builder_, builder_.CreateString(symbol.name), Text(symbol.display),
                               symbol.lo, symbol.hi, symbol.stage);
    });
    const auto exprs = builder_.CreateVectorOfStructs(exprs_.nodes());
    const auto expr_args = builder_.CreateVector(exprs_.args());
    const auto values = Tables(kept_, [&](ValueId id) {
      const ir::Value& value = graph_.value(id);
      const auto dims = builder_.CreateVector(exprs_.IndicesOf(value.type.dims));
      return fbs::CreateValue(builder_, Text(value.name), static_cast<fbs::DType>(value.type.dtype),
                              dims);
    });
    const auto inputs = Tables(graph_.inputs, [&](const ir::Input& input) {
      return fbs::CreateInput(builder_, Text(input.name), Number(input.value),
                              exprs_.IndexOf(input.scalar), input.used);
    });
    const auto outputs = Tables(graph_.outputs, [&](const ir::Output& output) {
      return fbs::CreateOutput(builder_, Text(output.name), Number(output.value),
                               exprs_.IndexOf(output.scalar));
    });
    const auto constants =
        Tables(graph_.constants, [&](const ir::Constant& c) { return Constant(c); });
    const auto states = Tables(graph_.states, [&](const ir::State& state) {
      const uint32_t result = state.result == state.value ? kNone : Number(state.result);
      return fbs::CreateState(builder_, Text(state.name), Number(state.value), result,
                              segment_.Place(state.initial), state.initial.size());
    });
    const auto nodes = Tables(graph_.nodes, [&](const ir::Node& node) { return Node(node); });
    const auto host_values = Tables(graph_.host_values, [&](const ir::HostValue& host) {
      const auto source =
          host.source == ir::Origin::kState ? fbs::HostSource::State : fbs::HostSource::Input;
      return fbs::CreateHostValue(builder_, host.symbol, source, host.index,
                                  exprs_.IndexOf(host.element));
    });
    const auto guards = Tables(graph_.guards, [&](const ir::Guard& guard) {
      return fbs::CreateGuard(builder_, exprs_.IndexOf(guard.condition), Text(guard.text));
    });
    return fbs::CreateModel(
        builder_, Text(graph_.name), builder_.CreateString("liveshape " LIVESHAPE_VERSION), symbols,
        exprs, expr_args, values, inputs, outputs, constants, states, nodes, host_values, guards);
  }

  Offset<fbs::Constant> Constant(const ir::Constant& c) {
    // The data of an external constant is not ours to store, even where it is bound already.
    const auto data = c.external.empty() ? c.data : std::span<const std::byte>();
    return fbs::CreateConstant(
        builder_, Text(c.name), Number(c.value), static_cast<fbs::Encoding>(c.encoding),
        static_cast<fbs::Layout>(c.layout), segment_.Place(data), data.size(), Text(c.external));
  }

  Offset<fbs::Node> Node(const ir::Node& node) {
    const auto attrs = Tables(node.attrs, [&](const auto& attr) {
      const auto [type, value] = std::visit([&](const auto& v) { return Value(v); }, attr.second);
      return fbs::CreateAttr(builder_, builder_.CreateSharedString(attr.first), type, value);
    });
    const auto inputs = Numbers(node.inputs);
    const auto outputs = Numbers(node.outputs);
    return fbs::CreateNode(builder_, builder_.CreateSharedString(node.op->name), Text(node.name),
                           Text(node.source), inputs, outputs, attrs);
  }

  using AttrValue = std::pair<fbs::AttrValue, Offset<void>>;
  AttrValue Value(int64_t v) {
    return {fbs::AttrValue::IntAttr, fbs::CreateIntAttr(builder_, v).Union()};
  }
  AttrValue Value(double v) {
    return {fbs::AttrValue::FloatAttr,
            fbs::CreateFloatAttr(builder_, std::bit_cast<int64_t>(v)).Union()};
  }
  AttrValue Value(const std::string& v) {
    return {fbs::AttrValue::StringAttr, fbs::CreateStringAttr(builder_, Text(v)).Union()};
  }
  AttrValue Value(const std::vector<int64_t>& v) {
    return {fbs::AttrValue::IntsAttr,
            fbs::CreateIntsAttr(builder_, builder_.CreateVector(v)).Union()};
  }
  AttrValue Value(const std::vector<Expr>& v) {
    return {fbs::AttrValue::ExprsAttr,
            fbs::CreateExprsAttr(builder_, builder_.CreateVector(exprs_.IndicesOf(v))).Union()};
  }
  AttrValue Value(const ir::PointwiseProgram& v) {
    std::vector<fbs::PwInstr> code;
    for (const ir::PwInstr& i : v.code)
      code.emplace_back(i.imm, i.a, i.b, i.c, static_cast<fbs::PwOp>(i.op),
                        static_cast<fbs::DType>(i.dtype));
    const auto instructions = builder_.CreateVectorOfStructs(code);
    const auto scalars = builder_.CreateVector(exprs_.IndicesOf(v.scalars));
    return {fbs::AttrValue::ProgramAttr,
            fbs::CreateProgramAttr(builder_, instructions, scalars).Union()};
  }

  const ir::Graph& graph_;
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<uint32_t> number_;  // ValueId -> number in the file
  std::vector<ValueId> kept_;     // and back
  Expressions exprs_;
  Segment segment_;
  Header header_;
};

// A megabyte: large enough that system calls do not count, small against any weight.
constexpr size_t kPiece = size_t{1} << 20;

}  // namespace

Status WriteArtifact(const ir::Graph& graph, const std::string& path, const ForgetHook& forget) {
  Serializer serializer(graph);
  LS_RETURN_IF_ERROR(serializer.Run().Prefixed(path));
  AtomicFile file;
  LS_RETURN_IF_ERROR(file.Create(path));
  LS_RETURN_IF_ERROR(file.Write(serializer.header().Encode()));
  LS_RETURN_IF_ERROR(file.Write(serializer.graph_bytes()));
  LS_RETURN_IF_ERROR(file.PadTo(kAlignment));
  for (std::span<const std::byte> rest : serializer.segment().pieces()) {
    while (!rest.empty()) {
      const auto piece = rest.first(std::min(kPiece, rest.size()));
      LS_RETURN_IF_ERROR(file.Write(piece));
      if (forget) forget(piece);
      rest = rest.subspan(piece.size());
    }
    LS_RETURN_IF_ERROR(file.PadTo(kAlignment));
  }
  LS_CHECK(file.offset() == serializer.header().file_size);
  return file.Commit();
}

Result<std::vector<std::byte>> SerializeArtifact(const ir::Graph& graph) {
  Serializer serializer(graph);
  LS_RETURN_IF_ERROR(serializer.Run());
  std::vector<std::byte> bytes;
  bytes.reserve(serializer.header().file_size);
  auto append = [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    bytes.resize(AlignUp(bytes.size()));
  };
  append(serializer.header().Encode());
  append(serializer.graph_bytes());
  for (std::span<const std::byte> piece : serializer.segment().pieces()) append(piece);
  LS_CHECK(bytes.size() == serializer.header().file_size);
  return bytes;
}

}  // namespace liveshape::artifact
