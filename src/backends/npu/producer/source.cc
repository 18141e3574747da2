#include "backends/npu/producer/source.h"

#include <cctype>
#include <cstddef>
#include <cstring>
#include <map>

#include "backends/npu/trace_header.h"

namespace liveshape::npu {
namespace {

using sym::Kind;

// The same arithmetic as in lower/walk.cc.
constexpr char kPrelude[] = R"cc(
#define WALK_ADD(out, a, b) \
    int64_t out;              \
    if (__builtin_add_overflow(a, b, &out)) return -2
#define WALK_MUL(out, a, b) \
    int64_t out;              \
    if (__builtin_mul_overflow(a, b, &out)) return -2

  static inline int64_t floor_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
  }
  static inline int power(int64_t base, int64_t exponent, int64_t* out) {
    *out = 1;
    for (int64_t i = 0; i < exponent; ++i)
      if (__builtin_mul_overflow(*out, base, out)) return -2;
    return 0;
  }
)cc";

// The field of a record at a byte offset, as C spells it.
std::string FieldAt(RecordKind kind, uint32_t at) {
  const auto place = [](uint32_t inner) {
    return inner == offsetof(ls_trace_place, offset)    ? "offset"
           : inner == offsetof(ls_trace_place, version) ? "version"
                                                        : "buffer";
  };
  const auto element = [&](const char* name, size_t first) {
    return fmt::format("{}[{}]", name, (at - first) / 8);
  };
  if (kind == RecordKind::kDma) {
    if (at >= offsetof(ls_trace_dma, buffer_stride))
      return element("buffer_stride", offsetof(ls_trace_dma, buffer_stride));
    if (at >= offsetof(ls_trace_dma, stride))
      return element("stride", offsetof(ls_trace_dma, stride));
    if (at >= offsetof(ls_trace_dma, extent))
      return element("extent", offsetof(ls_trace_dma, extent));
    if (at >= offsetof(ls_trace_dma, index))
      return fmt::format("index.{}", place(at - offsetof(ls_trace_dma, index)));
    if (at == offsetof(ls_trace_dma, offset)) return "offset";
    return fmt::format("place.{}", place(at - offsetof(ls_trace_dma, place)));
  }
  if (at >= offsetof(ls_trace_compute, operand)) {
    const auto inner = static_cast<uint32_t>(at - offsetof(ls_trace_compute, operand));
    return fmt::format("operand[{}].{}", inner / sizeof(ls_trace_place),
                       place(inner % sizeof(ls_trace_place)));
  }
  if (at >= offsetof(ls_trace_compute, argument))
    return element("argument", offsetof(ls_trace_compute, argument));
  return element("extent", offsetof(ls_trace_compute, extent));
}

std::string PlaceText(const ls_trace_place& p) {
  return fmt::format("{{{}, {}, {}}}", p.buffer, p.version, p.offset);
}
std::string ListText(const int64_t (&list)[LS_TRACE_MAX_RANK]) {
  return fmt::format("{{{}}}", fmt::join(list, ", "));
}

class Function {
 public:
  explicit Function(const Kernel& kernel) : kernel_(kernel), schedule_(*kernel.schedule) {}

  // Everything after the name.
  std::string Text() {
    Line("(const int64_t* shape_args, int32_t n, const ls_trace_sink* sink) {{");
    ++indent_;
    Line("if (n != {}) return -1;", schedule_.arguments);
    // In locals: a callback might change the sink, as far as a compiler can know.
    Line("void* const context = sink->context;");
    for (const char* callback : {"dispatch", "dma", "compute", "barrier"})
      Line("const auto {0} = sink->{0};", callback);
    Line("int64_t tile = -1, item = -1;");
    constants_.assign(schedule_.slots, {});
    for (const auto& [slot, value] : schedule_.constants)
      constants_[slot] = fmt::format("INT64_C({})", value);
    for (uint32_t a = 0; a < schedule_.arguments; ++a)
      Line("const int64_t {} = shape_args[{}];", Name(a), a);
    DeclareRecords(schedule_.body);
    AddBlock(schedule_.body);
    Line("return 0;");
    --indent_;
    Line("}}");
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<size_t>(2 * indent_), ' ');
    text_ += fmt::format(format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  std::string Name(uint32_t slot) const {
    if (!constants_[slot].empty()) return constants_[slot];
    std::string name = schedule_.names[slot].empty() ? "v" : schedule_.names[slot] + "_";
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return name + std::to_string(slot);
  }

  void DeclareRecords(const ScheduledBlock& block) {
    for (const ScheduledStatement& s : block.statements) {
      if (s.kind != ScheduledStatement::Kind::kRecord) {
        DeclareRecords(s.body);
        continue;
      }
      const std::byte* at = schedule_.records.data() + s.at;
      record_at_[s.at] = s.record;
      switch (s.record) {
        case RecordKind::kDispatch: Line("ls_trace_dispatch r{} = {{0, 0, 0, 0}};", s.at); break;
        case RecordKind::kBarrier: {
          ls_trace_barrier r;
          std::memcpy(&r, at, sizeof(r));
          Line("ls_trace_barrier r{} = {{{}, 0}};", s.at, r.kind);
          break;
        }
        case RecordKind::kDma: {
          ls_trace_dma r;
          std::memcpy(&r, at, sizeof(r));
          Line("ls_trace_dma r{} = {{{}, {}, {}, {}, {}, {}, {}, 0, {}, {}, {}, {}}};", s.at,
               r.store, r.tensor, PlaceText(r.place), r.offset, r.element_bytes, r.rank, r.indexed,
               PlaceText(r.index), ListText(r.extent), ListText(r.stride),
               ListText(r.buffer_stride));
          break;
        }
        case RecordKind::kCompute: {
          ls_trace_compute r;
          std::memcpy(&r, at, sizeof(r));
          std::string places;
          for (const ls_trace_place& p : r.operand)
            places += (places.empty() ? "" : ", ") + PlaceText(p);
          Line("ls_trace_compute r{} = {{{}, {}, {}, {}, {}, 0, {{{}}}}};", s.at, r.code, r.rank,
               ListText(r.extent), ListText(r.argument), r.operands, places);
        }
      }
    }
  }

  std::string Field(uint32_t at) const {
    auto record = std::prev(record_at_.upper_bound(at));
    return fmt::format("r{}.{}", record->first, FieldAt(record->second, at - record->first));
  }

  void AddBlock(const ScheduledBlock& block) {
    for (const Instruction& in : block.instructions) AddInstruction(in);
    for (const Patch& patch : block.patches) Line("{} = {};", Field(patch.at), Name(patch.slot));
    for (const ScheduledStatement& s : block.statements) AddStatement(s);
  }

  void AddInstruction(const Instruction& in) {
    const std::string out = Name(in.out), a = Name(in.a), b = Name(in.b);
    switch (in.op) {
      case Kind::kAdd: Line("WALK_ADD({}, {}, {});", out, a, b); return;
      case Kind::kMul: Line("WALK_MUL({}, {}, {});", out, a, b); return;
      case Kind::kPow:
        Line("int64_t {0}; if (power({1}, {2}, &{0})) return -2;", out, a, b);
        return;
      case Kind::kFloorDiv: Line("const int64_t {} = floor_div({}, {});", out, a, b); return;
      case Kind::kCeilDiv: Line("const int64_t {} = -floor_div(-{}, {});", out, a, b); return;
      case Kind::kMod:
        Line("const int64_t {0} = {1} - floor_div({1}, {2}) * {2};", out, a, b);
        return;
      case Kind::kMin: Line("const int64_t {0} = {1} < {2} ? {1} : {2};", out, a, b); return;
      case Kind::kMax: Line("const int64_t {0} = {1} > {2} ? {1} : {2};", out, a, b); return;
      case Kind::kSelect:
        Line("const int64_t {} = {} != 0 ? {} : {};", out, a, b, Name(in.c));
        return;
      case Kind::kEq: Line("const int64_t {} = {} == {};", out, a, b); return;
      case Kind::kNe: Line("const int64_t {} = {} != {};", out, a, b); return;
      case Kind::kLt: Line("const int64_t {} = {} < {};", out, a, b); return;
      case Kind::kLe: Line("const int64_t {} = {} <= {};", out, a, b); return;
      case Kind::kAnd: Line("const int64_t {} = {} != 0 && {} != 0;", out, a, b); return;
      case Kind::kOr: Line("const int64_t {} = {} != 0 || {} != 0;", out, a, b); return;
      default: Line("const int64_t {} = {} == 0;", out, a); return;  // kNot
    }
  }

  void AddStatement(const ScheduledStatement& s) {
    switch (s.kind) {
      case ScheduledStatement::Kind::kItem: Line("++item;"); return;
      case ScheduledStatement::Kind::kLoop:
      case ScheduledStatement::Kind::kIf:
        if (s.kind == ScheduledStatement::Kind::kIf)
          Line("if ({} != 0) {{", Name(s.slot));
        else
          Line("for (int64_t {0} = 0; {0} < {1}; ++{0}) {{", Name(s.variable), Name(s.slot));
        ++indent_;
        AddBlock(s.body);
        --indent_;
        Line("}}");
        return;
      case ScheduledStatement::Kind::kRecord: break;
    }
    for (const VersionPatch& patch : s.versions) {
      const Buffer& buffer = kernel_.buffers[patch.buffer];
      Line("{} = (uint32_t)((uint64_t){} % {});", Field(patch.at),
           buffer.turn == Turn::kTile ? "tile" : "item", buffer.versions);
    }
    const char* callback = "barrier";
    switch (s.record) {
      case RecordKind::kDispatch:
        Line("r{0}.tile = ++tile; r{0}.item = item; r{0}.variant = (uint32_t){1};", s.at,
             Name(schedule_.variant));
        callback = "dispatch";
        break;
      case RecordKind::kDma: callback = "dma"; break;
      case RecordKind::kCompute: callback = "compute"; break;
      case RecordKind::kBarrier: break;
    }
    Line("if (int status = {0}(context, &r{1})) return status;", callback, s.at);
  }

  const Kernel& kernel_;
  const Schedule& schedule_;
  std::vector<std::string> constants_;  // by slot; empty: not one
  std::map<uint32_t, RecordKind> record_at_;
  std::string text_;
  int indent_ = 0;
};

// Functions, then tables. Kernels that walk alike (the layers of a decoder) share one function.
std::string Body(const Model& model) {
  std::string text, tables, kernels;
  std::map<std::string, size_t> functions;
  for (size_t i = 0; i < model.kernels.size(); ++i) {
    const Kernel& kernel = model.kernels[i];
    const auto [function, added] = functions.try_emplace(Function(kernel).Text(), functions.size());
    if (added)
      text += fmt::format("\n// {}\nstatic int walk_{}{}", kernel.name, function->second,
                          function->first);
    tables += fmt::format("static const ls_trace_buffer buffers_{}[] = {{\n", i);
    for (uint32_t v = 0; v < kernel.variants; ++v)
      for (const Buffer& buffer : kernel.buffers)
        tables += fmt::format("    {{\"{}\", {}, {}, 0}},\n", buffer.name, buffer.bytes[v],
                              buffer.versions);
    tables += "};\n";
    kernels +=
        fmt::format("    {{\"{}\", {}, {}, {}, {}, {}, 0, buffers_{}, walk_{}}},\n", kernel.name,
                    kernel.shape_args.size(), kernel.tensors.size(), kernel.codes.size(),
                    kernel.variants, kernel.buffers.size(), i, function->second);
  }
  return text + "\n" + tables + "static const ls_trace_kernel kernels[] = {\n" + kernels + "};\n";
}

std::string Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

}  // namespace

std::string Digest(const Model& model) { return Hash(Body(model)); }

std::string ProducerSource(const Model& model) {
  const std::string body = Body(model);
  return fmt::format(
      "// A trace producer made by Liveshape; see the text of trace.h that follows.\n{}{}{}\n"
      "static const ls_trace_library library = {{LS_TRACE_ABI_VERSION, {}, kernels, \"{}\"}};\n\n"
      "extern \"C\" __attribute__((visibility(\"default\")))\n"
      "const ls_trace_library* ls_trace_get_library(uint32_t abi_version) {{\n"
      "  return abi_version == LS_TRACE_ABI_VERSION ? &library : 0;\n}}\n",
      kTraceHeader, kPrelude, body, model.kernels.size(), Hash(body));
}

}  // namespace liveshape::npu
