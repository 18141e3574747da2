#include <algorithm>
#include <iterator>

#include "artifact/load.h"
#include "cli/dump.h"
#include "cli/json.h"
#include "import/pte/program.h"
#include "ir/graph.h"

namespace liveshape::cli {
namespace {

constexpr const char* kDynamism[] = {"static", "bound", "unbound"};

Result<std::string> DelegateDump(const pte::Delegate& delegate,
                                 std::shared_ptr<const MappedFile> file, DumpFormat format) {
  auto graph = artifact::LoadGraph(delegate.data.bytes, std::move(file));
  if (!graph.ok())
    return std::move(graph).status().Prefixed(
        fmt::format("the blob of {} at {}", delegate.id, delegate.data.offset));
  LS_ASSIGN_OR_RETURN(auto artifact, Artifact::FromGraph(*std::move(graph)));
  return ArtifactDump(artifact, format);
}

std::string OperatorName(const pte::Operator& op) {
  return fmt::format("{}{}{}", op.name, op.overload.empty() ? "" : ".", op.overload);
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

// Written with the sizes that a method's tensor may have: `f32[<=8, 4]` bounds, `f32[?, ?]` is free.
std::string Text(const pte::Value& value) {
  if (!value.tensor) return std::string(value.kind);
  std::string text = value.tensor->dtype + "[";
  for (const int64_t size : value.tensor->sizes) {
    if (!text.ends_with('[')) text += ", ";
    if (value.tensor->dynamism == pte::Dynamism::kUnbound)
      text += '?';
    else
      text +=
          fmt::format("{}{}", value.tensor->dynamism == pte::Dynamism::kBound ? "<=" : "", size);
  }
  return text + "]";
}

class PteText {
 public:
  explicit PteText(const pte::Program& program) : program_(program) {}

  Result<std::string> Write(const std::shared_ptr<const MappedFile>& file) {
    Line("pte: version {}, {} bytes, {}", program_.version, file->bytes().size(),
         program_.header ? fmt::format("a program of {}, segments from {}",
                                       program_.header->program_size, program_.header->segment_base)
                         : "no extended header");
    for (size_t i = 0; i < program_.segments.size(); ++i)
      Line("segment {}: {} bytes at {}", i, program_.segments[i].bytes.size(),
           program_.segments[i].offset);
    if (program_.constants)
      Line("constants: {} in segment {}", program_.constants->tensors, program_.constants->segment);
    if (program_.inline_constants > 0)
      Line("constants: {} inline, {} bytes", program_.inline_constants,
           program_.inline_constant_bytes);
    for (const pte::TensorSegment& values : program_.initial_values)
      Line("initial values: {} in segment {}", values.tensors, values.segment);
    for (const pte::NamedData& named : program_.named_data)
      Line("named data {}: {} bytes in segment {}", named.key,
           program_.segments[named.segment].bytes.size(), named.segment);
    for (const pte::Method& method : program_.methods)
      LS_RETURN_IF_ERROR(WriteMethod(method, file));
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  Status WriteMethod(const pte::Method& method, const std::shared_ptr<const MappedFile>& file) {
    Line("method {}: {} values, {} of them tensors ({} constant, {} external)", method.name,
         method.values, method.tensors, method.constant_tensors, method.external_tensors);
    for (size_t i = 0; i < method.inputs.size(); ++i)
      Line("  input {}: {}", i, Text(method.inputs[i]));
    for (size_t i = 0; i < method.outputs.size(); ++i)
      Line("  output {}: {}", i, Text(method.outputs[i]));
    Line("  memory: {} bytes", fmt::join(method.memory, " + "));
    for (size_t i = 0; i < method.chains.size(); ++i) {
      const pte::Chain& chain = method.chains[i];
      Line("  chain {}: {} kernel calls, {} delegate calls, {} moves, {} jumps, {} frees{}", i,
           chain.kernel_calls, chain.delegate_calls, chain.moves, chain.jumps, chain.frees,
           chain.unknown > 0 ? fmt::format(", {} of unknown kind", chain.unknown) : "");
    }
    for (const pte::Operator& op : method.operators)
      Line("  outside delegates: {} x {}", op.calls, OperatorName(op));
    for (size_t i = 0; i < method.delegates.size(); ++i) {
      const pte::Delegate& delegate = method.delegates[i];
      Line("  delegate {}: {}, {} calls, {} bytes at {} ({} {})", i, delegate.id, delegate.calls,
           delegate.data.bytes.size(), delegate.data.offset,
           delegate.in_segment ? "segment" : "inline", delegate.index);
      for (const pte::CompileSpec& spec : delegate.specs)
        Line("    compile spec {}: {} bytes{}", spec.key, spec.value.size(), Readable(spec.value));
      if (delegate.id != pte::kLiveshapeDelegate) continue;
      LS_ASSIGN_OR_RETURN(const std::string text, DelegateDump(delegate, file, DumpFormat::kText));
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        Line("    {}", std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
      }
    }
    return {};
  }

  static std::string Readable(std::span<const std::byte> bytes) {
    constexpr size_t kShort = 64;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const bool printable =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (text.empty() || text.size() > kShort) return "";
    return printable ? fmt::format(", \"{}\"", text) : fmt::format(", 0x{}", Hex(bytes));
  }

  const pte::Program& program_;
  std::string out_;
};

class PteJson {
 public:
  explicit PteJson(const pte::Program& program) : program_(program) {}

  Result<std::string> Write(const std::shared_ptr<const MappedFile>& file) {
    Status status;
    json_.Object([&] {
      json_.Field("format", "pte").Field("version", program_.version);
      json_.Field("bytes", file->bytes().size());
      json_.Key("extended_header");
      program_.header ? Header(*program_.header) : void(json_.Null());
      json_.Key("segments").Array([&] {
        for (const pte::Blob& segment : program_.segments) json_.Object([&] { Place(segment); });
      });
      json_.Key("constants");
      program_.constants ? Tensors(*program_.constants) : void(json_.Null());
      json_.Field("inline_constants", program_.inline_constants);
      json_.Field("inline_constant_bytes", program_.inline_constant_bytes);
      json_.Key("initial_values").Array([&] {
        for (const pte::TensorSegment& values : program_.initial_values) Tensors(values);
      });
      json_.Key("named_data").Array([&] {
        for (const pte::NamedData& named : program_.named_data)
          json_.Object([&] { json_.Field("key", named.key).Field("segment", named.segment); });
      });
      json_.Key("methods").Array([&] {
        for (const pte::Method& method : program_.methods)
          if (status.ok()) status = WriteMethod(method, file);
      });
    });
    if (!status.ok()) return status;
    return json_.text();
  }

 private:
  void Header(const pte::ExtendedHeader& header) {
    json_.Object([&] {
      json_.Field("length", header.length).Field("program_size", header.program_size);
      json_.Field("segment_base_offset", header.segment_base);
      if (header.segment_bytes) json_.Field("segment_data_size", *header.segment_bytes);
    });
  }
  void Place(const pte::Blob& blob) {
    json_.Field("offset", blob.offset).Field("size", blob.bytes.size());
  }
  void Tensors(const pte::TensorSegment& tensors) {
    json_.Object(
        [&] { json_.Field("segment", tensors.segment).Field("tensors", tensors.tensors); });
  }
  void Ports(const char* key, const std::vector<pte::Value>& ports) {
    json_.Key(key).Array([&] {
      for (const pte::Value& port : ports)
        json_.Object([&] {
          json_.Field("kind", port.kind);
          if (!port.tensor) return;
          json_.Field("dtype", port.tensor->dtype);
          json_.Key("sizes").Array([&] {
            for (const int64_t size : port.tensor->sizes) json_.Value(size);
          });
          json_.Field("dynamism", kDynamism[static_cast<size_t>(port.tensor->dynamism)]);
        });
    });
  }
  Status WriteMethod(const pte::Method& method, const std::shared_ptr<const MappedFile>& file) {
    Status status;
    json_.Object([&] {
      json_.Field("name", method.name)
          .Field("values", method.values)
          .Field("tensors", method.tensors);
      json_.Field("constant_tensors", method.constant_tensors)
          .Field("external_tensors", method.external_tensors);
      Ports("inputs", method.inputs);
      Ports("outputs", method.outputs);
      json_.Key("memory").Array([&] {
        for (const int64_t bytes : method.memory) json_.Value(bytes);
      });
      json_.Key("chains").Array([&] {
        for (const pte::Chain& chain : method.chains)
          json_.Object([&] {
            json_.Field("kernel_calls", chain.kernel_calls)
                .Field("delegate_calls", chain.delegate_calls);
            json_.Field("moves", chain.moves)
                .Field("jumps", chain.jumps)
                .Field("frees", chain.frees);
            json_.Field("unknown", chain.unknown);
          });
      });
      json_.Key("operators").Array([&] {
        for (const pte::Operator& op : method.operators)
          json_.Object([&] { json_.Field("name", OperatorName(op)).Field("calls", op.calls); });
      });
      json_.Key("delegates").Array([&] {
        for (const pte::Delegate& delegate : method.delegates)
          if (status.ok()) status = WriteDelegate(delegate, file);
      });
    });
    return status;
  }
  Status WriteDelegate(const pte::Delegate& delegate,
                       const std::shared_ptr<const MappedFile>& file) {
    std::string artifact;
    if (delegate.id == pte::kLiveshapeDelegate) {
      LS_ASSIGN_OR_RETURN(artifact, DelegateDump(delegate, file, DumpFormat::kJson));
    }
    json_.Object([&] {
      json_.Field("id", delegate.id).Field("calls", delegate.calls);
      json_.Field("in", delegate.in_segment ? "segment" : "inline").Field("index", delegate.index);
      Place(delegate.data);
      json_.Key("compile_specs").Array([&] {
        for (const pte::CompileSpec& spec : delegate.specs)
          json_.Object([&] { json_.Field("key", spec.key).Field("hex", Hex(spec.value)); });
      });
      if (!artifact.empty()) json_.Key("artifact").Raw(artifact);
    });
    return {};
  }

  const pte::Program& program_;
  JsonWriter json_;
};

// Graphviz reads several graphs from one file.
Result<std::string> PteDot(const pte::Program& program,
                           const std::shared_ptr<const MappedFile>& file) {
  std::string dot;
  for (const pte::Method& method : program.methods)
    for (const pte::Delegate& delegate : method.delegates)
      if (delegate.id == pte::kLiveshapeDelegate) {
        LS_ASSIGN_OR_RETURN(const std::string graph,
                            DelegateDump(delegate, file, DumpFormat::kDot));
        dot += graph;
      }
  if (dot.empty())
    return InvalidArgument("no delegate {} to draw; --format text lists what is there",
                           pte::kLiveshapeDelegate);
  return dot;
}

}  // namespace

Result<std::string> PteDump(std::shared_ptr<const MappedFile> file, DumpFormat format) {
  LS_ASSIGN_OR_RETURN(const pte::Program program, pte::ReadProgram(file->bytes()));
  switch (format) {
    case DumpFormat::kText: return PteText(program).Write(file);
    case DumpFormat::kJson: return PteJson(program).Write(file);
    case DumpFormat::kDot: break;
  }
  return PteDot(program, file);
}

}  // namespace liveshape::cli
