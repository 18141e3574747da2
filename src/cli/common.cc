#include "cli/common.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "backends/npu/machine/reader.h"
#include "ir/graph.h"

namespace liveshape::cli {
namespace {

template <typename T>
T Load(const void* data, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
void Store(void* data, size_t i, T value) {
  std::memcpy(static_cast<std::byte*>(data) + i * sizeof(T), &value, sizeof(T));
}

float FromBf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  return Load<float>(&wide, 0);
}
uint16_t ToBf16(float value) {
  if (std::isnan(value)) return 0x7FC0;
  uint32_t bits = Load<uint32_t>(&value, 0);
  bits += 0x7FFF + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

std::string Underscored(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

size_t Width(std::string_view text) {  // code points: `µs` is two
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

int Fail(std::string_view subcommand, const Status& status, bool json) {
  std::fflush(stdout);
  Say("liveshape {}: {}\n", subcommand, status.message());
  if (json) {
    JsonWriter writer;
    writer.Object([&] {
      writer.Key("error").Object([&] {
        writer.Field("code", CodeName(status.code())).Field("message", status.message());
      });
    });
    fmt::print("{}\n", writer.text());
  }
  return kBadInput;
}

Result<BackendPtr> MakeBackend(const std::string& name, int threads, bool profile,
                               const std::string& machine) {
  if (threads < 0 || threads > 1024)
    return InvalidArgument("--threads {}: 0 (one per core) to 1024", threads);
  if (!machine.empty() && !name.starts_with("npu"))
    return InvalidArgument("a machine is for the backend npu, not for `{}`", name);
  if (name == "cpu") return MakeCpuBackend({.threads = threads});
  if (name == "null") return MakeNullBackend();
  if (name == "webgpu") return MakeWebGpuBackend({.profile = profile});
  if (name == "npu") return MakeNpuBackend({.machine = machine});
  // Values as that machine computes them. Its cycles are told by `simulate`: timing allocates, which strict runs forbid.
  if (name.starts_with("npu:") && name.ends_with(".yaml")) {
    LS_ASSIGN_OR_RETURN(const npu::Machine described, npu::ReadMachineFile(name.substr(4)));
    return MakeNpuBackend({.scratchpad_bytes = described.scratchpad_bytes,
                           .array_rows = static_cast<int>(described.array.rows),
                           .array_cols = static_cast<int>(described.array.columns),
                           .arrays = static_cast<int>(described.array.count),
                           .lanes = static_cast<int>(described.vector.lanes)});
  }
  if (name.starts_with("npu:")) {
    LS_ASSIGN_OR_RETURN(const int64_t tile, ParseInt(name.substr(4)));
    if (tile < 1 || tile > (1 << 20))
      return InvalidArgument("`{}`: a tile of 1 to {}", name, 1 << 20);
    return MakeNpuBackend({.tile = tile, .machine = machine});
  }
  return InvalidArgument("unknown backend `{}`: there are cpu, webgpu, npu and null", name);
}

HostTensor::HostTensor(DType dtype, std::vector<int64_t> dims)
    : dtype_(dtype), dims_(std::move(dims)) {
  bytes_.resize(TensorRef{.dtype = dtype_, .data = nullptr, .dims = dims_}.bytes());
}

HostTensor HostTensor::CopyOf(const TensorRef& tensor) {
  HostTensor copy(tensor.dtype, tensor.dims);
  if (!copy.bytes_.empty()) std::memcpy(copy.bytes_.data(), tensor.data, copy.bytes_.size());
  return copy;
}

TensorRef HostTensor::ref() const {
  return {.dtype = dtype_, .data = const_cast<std::byte*>(bytes_.data()), .dims = dims_};
}

double ElementAsDouble(DType dtype, const void* data, size_t i) {
  switch (dtype) {
    case DType::kF32: return Load<float>(data, i);
    case DType::kF16: return static_cast<double>(Load<_Float16>(data, i));
    case DType::kBF16: return FromBf16(Load<uint16_t>(data, i));
    case DType::kF64: return Load<double>(data, i);
    case DType::kI64: return static_cast<double>(Load<int64_t>(data, i));
    case DType::kI32: return Load<int32_t>(data, i);
    case DType::kI16: return Load<int16_t>(data, i);
    case DType::kI8: return Load<int8_t>(data, i);
    case DType::kU8:
    case DType::kBool: return Load<uint8_t>(data, i);
  }
  return 0;
}

void SetElement(DType dtype, void* data, size_t i, double value) {
  switch (dtype) {
    case DType::kF32: return Store(data, i, static_cast<float>(value));
    case DType::kF16: return Store(data, i, static_cast<_Float16>(value));
    case DType::kBF16: return Store(data, i, ToBf16(static_cast<float>(value)));
    case DType::kF64: return Store(data, i, value);
    case DType::kI64: return Store(data, i, static_cast<int64_t>(value));
    case DType::kI32: return Store(data, i, static_cast<int32_t>(value));
    case DType::kI16: return Store(data, i, static_cast<int16_t>(value));
    case DType::kI8: return Store(data, i, static_cast<int8_t>(value));
    case DType::kU8:
    case DType::kBool: return Store(data, i, static_cast<uint8_t>(value));
  }
}

Result<size_t> FindInput(const Artifact& artifact, std::string_view name) {
  const auto& inputs = artifact.inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == name) return i;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (Underscored(inputs[i].name) == Underscored(name)) return i;
  const auto position = ParseInt(name);
  if (position.ok() && *position >= 0 && static_cast<size_t>(*position) < inputs.size())
    return static_cast<size_t>(*position);
  std::vector<std::string> known;
  for (size_t i = 0; i < inputs.size(); ++i)
    known.push_back(fmt::format("{}={}", i, inputs[i].name));
  return NotFound("no input `{}`: the model has {}", name,
                  known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

bool IsShapeSymbol(const Artifact& artifact, size_t symbol) {
  const auto& infos = artifact.graph().table().symbols();
  return symbol < infos.size() && infos[symbol].stage == 0;
}

const std::string& SymbolName(const SymbolDescription& symbol) {
  return symbol.display.empty() ? symbol.name : symbol.display;
}

Point LiveShape(const Artifact& artifact, std::span<const int64_t> values) {
  const auto& symbols = artifact.symbols();
  Point shape;
  std::vector<bool> done(symbols.size(), false);
  const auto add = [&](size_t i) {
    if (i >= values.size() || done[i] || !IsShapeSymbol(artifact, i)) return;
    shape.emplace_back(SymbolName(symbols[i]), values[i]);
    done[i] = true;
  };
  const auto add_place = [&](const std::string& place) {
    if (const int found = artifact.FindSymbol(place); found >= 0) add(static_cast<size_t>(found));
  };
  for (const PortDescription& input : artifact.inputs()) {
    if (input.scalar) add_place(input.name);
    for (size_t d = 0; d < input.dims.size(); ++d) add_place(fmt::format("{}.{}", input.name, d));
  }
  for (size_t i = 0; i < symbols.size(); ++i) add(i);
  return shape;
}

Result<std::vector<int64_t>> SymbolValues(const Artifact& artifact, const Point& point,
                                          std::string_view flag) {
  const auto& symbols = artifact.symbols();
  std::vector<int64_t> values(symbols.size(), 0);
  std::vector<bool> given(symbols.size(), false);
  for (const auto& [name, value] : point) {
    const int found = artifact.FindSymbol(name);
    if (found < 0) {
      std::vector<std::string> known;
      for (size_t i = 0; i < symbols.size(); ++i)
        if (IsShapeSymbol(artifact, i)) known.push_back(SymbolName(symbols[i]));
      return NotFound(
          "no symbol `{}`: the model has {}", name,
          known.empty() ? "none, its shape is static" : fmt::format("{}", fmt::join(known, ", ")));
    }
    if (given[found] && values[found] != value)
      return InvalidArgument("symbol `{}` is given two values, {} and {}", name, values[found],
                             value);
    values[found] = value;
    given[found] = true;
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (given[i] || !IsShapeSymbol(artifact, i)) continue;
    if (symbols[i].min != symbols[i].max) {
      return InvalidArgument("symbol `{}` ({} to {}) has no value: add {} {}=...",
                             SymbolName(symbols[i]), symbols[i].min, symbols[i].max, flag,
                             SymbolName(symbols[i]));
    }
    values[i] = symbols[i].min;
  }
  return values;
}

Result<std::vector<HostTensor>> RandomInputs(const Artifact& artifact,
                                             std::span<const int64_t> symbol_values,
                                             const std::map<std::string, IntRange>& ranges) {
  const ir::Graph& graph = artifact.graph();
  std::map<size_t, IntRange> range_of;
  for (const auto& [name, range] : ranges) {
    LS_ASSIGN_OR_RETURN(size_t input, FindInput(artifact, name));
    range_of[input] = range;
  }
  std::mt19937_64 random(0);
  std::normal_distribution<double> normal;
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::Input& input = graph.inputs[i];
    if (input.value == ir::kNoValue) {
      LS_ASSIGN_OR_RETURN(int64_t value, graph.table().Evaluate(input.scalar, symbol_values));
      HostTensor scalar(DType::kI64, {});
      std::memcpy(scalar.data(), &value, sizeof(value));
      inputs.push_back(std::move(scalar));
      continue;
    }
    const ir::TensorType& type = graph.type(input.value);
    std::vector<int64_t> dims;
    size_t numel = 1;
    for (const ir::Expr dim : type.dims) {
      LS_ASSIGN_OR_RETURN(int64_t size, graph.table().Evaluate(dim, symbol_values));
      if (size < 0 || __builtin_mul_overflow(numel, static_cast<size_t>(size), &numel) ||
          numel > (size_t{1} << 40))
        return OutOfRange("input `{}` would have size {} in dim {}", input.name, size, dims.size());
      dims.push_back(size);
    }
    HostTensor tensor(type.dtype, std::move(dims));
    const IntRange range = range_of.contains(i) ? range_of[i] : IntRange{};
    std::uniform_int_distribution<int64_t> integer(range.low, range.high), coin(0, 1);
    for (size_t e = 0; e < numel; ++e) {
      const double value = IsFloat(type.dtype)          ? normal(random)
                           : type.dtype == DType::kBool ? static_cast<double>(coin(random))
                                                        : static_cast<double>(integer(random));
      SetElement(type.dtype, tensor.data(), e, value);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::vector<TensorRef> Refs(std::span<const HostTensor> tensors) {
  std::vector<TensorRef> refs;
  for (const HostTensor& tensor : tensors) refs.push_back(tensor.ref());
  return refs;
}

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - Width(row[c]), ' ');
      line += c == 0 ? row[c] + pad : "  " + pad + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

void WriteShape(JsonWriter& json, const Point& point) {
  json.Object([&] {
    for (const auto& [name, value] : point) json.Field(name, value);
  });
}

void WriteCounters(JsonWriter& json, const Stats& stats) {
  json.Key("allocations");
  stats.allocations_observed ? json.Value(stats.allocations) : json.Value("not observed");
  json.Field("rebuilds", stats.rebuilds).Field("moved_addresses", stats.moved_addresses);
}

std::string AllocationsCell(const Stats& stats) {
  return stats.allocations_observed ? fmt::format("{}", stats.allocations) : "not observed";
}

std::string Counters(const Stats& stats) {
  return fmt::format("allocations: {}, rebuilds: {}, moved addresses: {}", AllocationsCell(stats),
                     stats.rebuilds, stats.moved_addresses);
}

bool CountersClean(const Stats& stats) {
  return (!stats.allocations_observed || stats.allocations == 0) && stats.rebuilds == 0 &&
         stats.moved_addresses == 0;
}

}  // namespace liveshape::cli
