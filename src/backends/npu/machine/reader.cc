#include "backends/npu/machine/reader.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "backends/npu/machine/yaml.h"

namespace liveshape::npu {
namespace {

constexpr size_t kMostBytes = 1 << 16;  // of a file: ours have 4 KB

std::string Show(const std::string& path) { return path.empty() ? "the file" : path; }

// The keys of a map: each of `known`, once, and no other.
Status CheckKeys(const YamlNode& map, const std::string& path, std::span<const char* const> known) {
  if (!map.is_map()) return map.Error("{} should be a map", path.empty() ? "a description" : path);
  std::set<std::string_view> seen;
  for (const auto& [key, value] : map.entries()) {
    if (!key.is_scalar()) return key.Error("a key of {} is not a name", Show(path));
    const std::string_view name = key.scalar();
    if (std::find(known.begin(), known.end(), name) == known.end())
      return key.Error("unknown key `{}`{}: there are {}", name, path.empty() ? "" : " in " + path,
                       fmt::join(known, ", "));
    if (!seen.insert(name).second) return key.Error("key `{}` comes twice", name);
  }
  for (const char* name : known)
    if (!seen.contains(name))
      return map.Error("{} has no `{}`, which has no default", Show(path), name);
  return {};
}

Result<int64_t> Integer(const YamlNode& node, const std::string& path, int64_t min, int64_t max) {
  int64_t value = 0;
  if (!node.is_scalar()) return node.Error("{} should be an integer", path);
  const std::string_view text = node.scalar();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return node.Error("{} is `{}`: should be an integer from {} to {}", path, text, min, max);
  if (value < min || value > max)
    return node.Error("{} is {}: should be {} to {}", path, value, min, max);
  return value;
}

Result<std::string> Text(const YamlNode& node, const std::string& path) {
  if (!node.is_scalar()) return node.Error("{} should be text", path);
  return std::string(node.scalar());
}

struct Field {
  const char* key;
  int64_t* value;
  int64_t min, max;
  bool power_of_two = false;
};

struct Section {
  const char* key;
  std::vector<Field> fields;
  std::vector<std::pair<const char*, bool*>> flags = {};
  std::vector<Section> sections = {};
};

Status Fill(const YamlNode& map, const std::string& path, const Section& section) {
  std::vector<const char*> known;
  for (const Field& field : section.fields) known.push_back(field.key);
  for (const auto& [key, flag] : section.flags) known.push_back(key);
  for (const Section& inner : section.sections) known.push_back(inner.key);
  if (path.empty()) known.insert(known.begin(), "name");
  LS_RETURN_IF_ERROR(CheckKeys(map, path, known));
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const Field& field : section.fields) {
    const YamlNode node = map[field.key];
    LS_ASSIGN_OR_RETURN(*field.value, Integer(node, prefix + field.key, field.min, field.max));
    if (field.power_of_two && !std::has_single_bit(static_cast<uint64_t>(*field.value)))
      return node.Error("{}{} is {}: should be a power of two", prefix, field.key, *field.value);
  }
  for (const auto& [key, flag] : section.flags) {
    const YamlNode node = map[key];
    if (!node.is_scalar() || (node.scalar() != "true" && node.scalar() != "false"))
      return node.Error("{}{} should be true or false", prefix, key);
    *flag = node.scalar() == "true";
  }
  for (const Section& inner : section.sections)
    LS_RETURN_IF_ERROR(Fill(map[inner.key], prefix + inner.key, inner));
  return {};
}

Section Pipe(const char* key, Pipeline& p) {
  return {key, {{"interval", &p.interval, 1, 1024}, {"latency", &p.latency, 1, 4096}}};
}

Section Layout(Machine& m) {
  constexpr int64_t kTime = 1 << 20;
  DramTiming& t = m.dram.timing;
  const auto clocks = [](const char* key, int64_t& value) { return Field{key, &value, 1, kTime}; };
  const auto operation = [&](VectorClass c) -> Pipeline& {
    return m.vector.operations[static_cast<size_t>(c)];
  };
  Section timing = {
      "timing",
      {clocks("tCL", t.tCL), clocks("tCWL", t.tCWL), clocks("tRCD", t.tRCD), clocks("tRP", t.tRP),
       clocks("tRAS", t.tRAS), clocks("tRC", t.tRC), clocks("tCCD_S", t.tCCD_S),
       clocks("tCCD_L", t.tCCD_L), clocks("tRRD_S", t.tRRD_S), clocks("tRRD_L", t.tRRD_L),
       clocks("tFAW", t.tFAW), clocks("tRTP", t.tRTP), clocks("tWR", t.tWR),
       clocks("tWTR_S", t.tWTR_S), clocks("tWTR_L", t.tWTR_L), clocks("tRTW", t.tRTW),
       clocks("tRFC", t.tRFC), clocks("tREFI", t.tREFI)}};
  return {"",
          {{"frequency_mhz", &m.frequency_mhz, 1, 100'000},
           {"cores", &m.cores, 1, 256},
           {"kernel_start_cycles", &m.kernel_start_cycles, 0, 1 << 24},
           {"tiles_in_flight", &m.tiles_in_flight, 1, 64},
           {"scratchpad_bytes", &m.scratchpad_bytes, 1024, int64_t{1} << 40}},
          {},
          {{"array",
            {{"count", &m.array.count, 1, 64},
             {"rows", &m.array.rows, 1, 4096},
             {"columns", &m.array.columns, 1, 4096},
             {"weight_rows_per_cycle", &m.array.weight_rows_per_cycle, 1, 4096},
             {"weight_buffers", &m.array.weight_buffers, 1, 2},
             {"cycles_per_row", &m.array.cycles_per_row, 1, 64},
             {"drain_cycles", &m.array.drain_cycles, 0, 1 << 16}}},
           {"vector",
            {{"lanes", &m.vector.lanes, 1, 65536}},
            {},
            {Pipe("simple", operation(VectorClass::kSimple)),
             Pipe("divide", operation(VectorClass::kDivide)),
             Pipe("transcendental", operation(VectorClass::kTranscendental)),
             Pipe("lane_reduction", m.vector.lane_reduction)}},
           {"dma",
            {{"setup_cycles", &m.dma.setup_cycles, 0, 1 << 20},
             {"bytes_per_cycle", &m.dma.bytes_per_cycle, 1, 1 << 20}}},
           {"noc",
            {{"latency", &m.noc.latency, 1, 1 << 16},
             {"port_bytes_per_cycle", &m.noc.port_bytes_per_cycle, 1, 1 << 20},
             {"buffer_bursts", &m.noc.buffer_bursts, 1, 4096}}},
           {"dram",
            {{"clock_mhz", &m.dram.clock_mhz, 1, 100'000},
             {"channels", &m.dram.channels, 1, 256, true},
             {"bank_groups", &m.dram.bank_groups, 1, 16, true},
             {"banks_per_group", &m.dram.banks_per_group, 1, 16, true},
             {"row_bytes", &m.dram.row_bytes, 64, 1 << 20, true},
             {"bus_bytes", &m.dram.bus_bytes, 1, 1024, true},
             {"burst_length", &m.dram.burst_length, 2, 32, true},
             {"interleave_bytes", &m.dram.interleave_bytes, 8, 1 << 20, true},
             {"queue", &m.dram.queue, 1, 256}},
            {{"hash", &m.dram.hash}, {"shared_command_bus", &m.dram.shared_command_bus}},
            {std::move(timing)}}}};
}

// What single values cannot show. Each message names the line of its section.
Status CheckTogether(const YamlNode& root, const Machine& m) {
  const DramConfig& d = m.dram;
  const DramTiming& t = d.timing;
  const YamlNode dram = root["dram"], timing = dram["timing"];
  if (d.Banks() > 64)
    return dram.Error("dram has {} banks a channel: should be 64 or less", d.Banks());
  if (d.BurstBytes() > d.interleave_bytes || d.BurstBytes() > d.row_bytes)
    return dram.Error("a burst of {} bytes is more than interleave_bytes or row_bytes",
                      d.BurstBytes());
  if (t.tCCD_S < d.BurstClocks() || t.tCCD_L < t.tCCD_S)
    return timing.Error(
        "tCCD_S {} and tCCD_L {}: a burst takes {} clocks, and tCCD_L is no less than tCCD_S",
        t.tCCD_S, t.tCCD_L, d.BurstClocks());
  if (t.tRC < t.tRAS + t.tRP)
    return timing.Error("tRC {} is less than tRAS {} + tRP {}", t.tRC, t.tRAS, t.tRP);
  if (t.tRRD_L < t.tRRD_S || t.tWTR_L < t.tWTR_S)
    return timing.Error("tRRD_L and tWTR_L are no less than tRRD_S and tWTR_S");
  if (t.tFAW < t.tRRD_S) return timing.Error("tFAW {} is less than tRRD_S {}", t.tFAW, t.tRRD_S);
  if (t.tRTW + t.tCWL < t.tCL + d.BurstClocks())
    return timing.Error("tRTW {} lets write data meet read data on the bus: should be {} or more",
                        t.tRTW, t.tCL + d.BurstClocks() - t.tCWL);
  if (t.tREFI <= t.tRFC + t.tRC)
    return timing.Error("tREFI {} leaves no time between refreshes of {}", t.tREFI, t.tRFC);
  return {};
}

template <typename T, typename Body>
Result<T> Parse(std::string_view yaml, std::string_view where, const Body& body) {
  if (yaml.size() > kMostBytes)
    return InvalidArgument("{}: {} bytes: should be {} or less", where, yaml.size(), kMostBytes);
  LS_ASSIGN_OR_RETURN(const YamlDocument document, YamlDocument::Parse(yaml, where));
  return body(document.root());
}

template <typename T>
Result<T> ReadFile(const std::string& path, Result<T> (*read)(std::string_view, std::string_view)) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read `{}`", path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return read(text, path);
}

}  // namespace

Result<Machine> ReadMachine(std::string_view yaml, std::string_view where) {
  return Parse<Machine>(yaml, where, [](const YamlNode& root) -> Result<Machine> {
    Machine machine;
    LS_RETURN_IF_ERROR(Fill(root, "", Layout(machine)));
    LS_ASSIGN_OR_RETURN(machine.name, Text(root["name"], "name"));
    LS_RETURN_IF_ERROR(CheckTogether(root, machine));
    return machine;
  });
}

Result<Machine> ReadMachineFile(const std::string& path) {
  return ReadFile<Machine>(path, ReadMachine);
}

Result<KernelAttributes> ReadAttributes(std::string_view yaml, std::string_view where) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  return Parse<KernelAttributes>(yaml, where, [](const YamlNode& root) -> Result<KernelAttributes> {
    KernelAttributes attributes;
    constexpr const char* kKeys[] = {"kernel", "shape_args", "address_info"};
    LS_RETURN_IF_ERROR(CheckKeys(root, "", kKeys));
    LS_ASSIGN_OR_RETURN(attributes.kernel, Text(root["kernel"], "kernel"));
    const YamlNode sizes = root["shape_args"], tensors = root["address_info"];
    if (!sizes.is_list()) return sizes.Error("shape_args should be a list");
    if (!tensors.is_list()) return tensors.Error("address_info should be a list");
    for (const YamlNode& size : sizes.items()) {
      LS_ASSIGN_OR_RETURN(attributes.shape_args.emplace_back(),
                          Integer(size, "shape_args", INT64_MIN, INT64_MAX));
    }
    for (const YamlNode& tensor : tensors.items()) {
      constexpr const char* kTensorKeys[] = {"tensor", "base", "bytes"};
      LS_RETURN_IF_ERROR(CheckKeys(tensor, "address_info", kTensorKeys));
      TensorAddress& address = attributes.address_info.emplace_back();
      LS_ASSIGN_OR_RETURN(address.tensor, Text(tensor["tensor"], "tensor"));
      LS_ASSIGN_OR_RETURN(address.base, Integer(tensor["base"], "base", 0, kLimit));
      LS_ASSIGN_OR_RETURN(address.bytes,
                          Integer(tensor["bytes"], "bytes", 0, kLimit - address.base));
    }
    return attributes;
  });
}

Result<KernelAttributes> ReadAttributesFile(const std::string& path) {
  return ReadFile<KernelAttributes>(path, ReadAttributes);
}

}  // namespace liveshape::npu
