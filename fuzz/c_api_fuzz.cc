// Any sequence of calls of the C ABI with any arguments, over a good model and over any bytes as an artifact: codes and
// messages, never a crash. Bytes that load as an artifact run on the null backend: a hostile model may well ask for
// more work than a fuzzer has time.
//
// The input: one byte (odd: the rest begins with an artifact), two bytes of its length, the artifact, then calls.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "artifact/testing.h"
#include "artifact/write.h"
#include "ir/graph.h"
#include "liveshape/c_api.h"
#include "ops/ops.h"

namespace {

using namespace liveshape;

// Numbers out of the input; zeros when it has ended.
class Source {
 public:
  Source(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  // Mostly small and legal, at times anything.
  int64_t Number() {
    const uint8_t first = Byte();
    if (first < 240) return first % 10;
    constexpr int64_t kOdd[] = {-1, 17, 64, 1 << 20, INT64_MAX, INT64_MIN, int64_t{1} << 40, 255};
    return kOdd[first % 8];
  }
  std::vector<std::byte> Take(size_t count) {
    count = std::min(count, size_);
    std::vector<std::byte> bytes(count);
    if (count > 0) std::memcpy(bytes.data(), data_, count);
    data_ += count, size_ -= count;
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

// rows[ids] of a table, and a state that keeps the first of them: f(ids [S]), S in 1..8.
std::vector<std::byte> GoodModel() {
  ir::Graph graph;
  const sym::Expr s = graph.table().Symbol({.name = "s0", .lo = 1, .hi = 8, .display = "S"});
  const ir::ValueId ids = graph.AddInput("ids", {DType::kI64, {s}});
  static const float table[4 * 2] = {1, 2, 3, 4, 5, 6, 7, 8};
  const ir::ValueId weight =
      graph.AddConstant({.name = "table", .dims = {4, 2}, .data = std::as_bytes(std::span(table))});
  static const float zeros[2] = {0, 0};
  const ir::ValueId last =
      graph.AddState({.name = "last", .dims = {1, 2}, .initial = std::as_bytes(std::span(zeros))});
  const auto one = [&](sym::Expr e) { return std::vector<sym::Expr>{e}; };
  const auto rows = graph.AddNode(ops::kEmbedding, {weight, ids}, {}, "rows");
  if (!rows.ok()) std::abort();
  const auto head = graph.AddNode(ops::kSlice, {(*rows)[0]},
                                  {{"dim", int64_t{0}},
                                   {"start", one(graph.table().Int(0))},
                                   {"length", one(graph.table().Int(1))},
                                   {"step", int64_t{1}}},
                                  "head");
  if (!head.ok()) std::abort();
  graph.states[0].result = (*head)[0];
  graph.outputs.push_back({.name = "rows", .value = (*rows)[0]});
  graph.outputs.push_back({.name = "before", .value = last});
  auto bytes = artifact::SerializeArtifact(graph);
  if (!bytes.ok()) std::abort();
  return {bytes->begin(), bytes->end()};
}

struct Tensor {
  int64_t dims[4];
  std::vector<int64_t> data;
  ls_tensor tensor;
  explicit Tensor(Source& in) : data(32) {
    for (int64_t& dim : dims) dim = in.Number();
    for (int64_t& value : data) value = in.Number() % 5;
    const uint8_t kind = in.Byte();
    tensor = {kind & 1 ? LS_I64 : static_cast<ls_dtype>(in.Number()),
              kind & 2 ? 1 : static_cast<int32_t>(in.Number()), dims, data.data(),
              data.size() * sizeof(int64_t)};
    if (tensor.rank > 4 && tensor.rank <= 64) tensor.rank = 4;
    if (kind % 16 == 4) tensor.data = nullptr;
    if (kind % 16 == 8) tensor.dims = nullptr;
    if (kind % 16 == 12) tensor.bytes = 3;
  }
};

void Expect(ls_status status) {
  if (status != LS_OK && ls_last_error()[0] == 0) std::abort();
  if (status == LS_INTERNAL) std::abort();
}

void Describe(const ls_artifact* artifact, Source& in) {
  ls_symbol_info symbol = {};
  ls_port_info port = {};
  symbol.struct_size = sizeof(symbol), port.struct_size = sizeof(port);
  for (size_t i = 0; i <= ls_artifact_symbol_count(artifact) && i < 100; ++i)
    Expect(ls_artifact_symbol(artifact, i, &symbol));
  for (size_t i = 0; i <= ls_artifact_input_count(artifact) && i < 100; ++i)
    Expect(ls_artifact_input(artifact, i, &port));
  for (size_t i = 0; i <= ls_artifact_output_count(artifact) && i < 100; ++i)
    Expect(ls_artifact_output(artifact, i, &port));
  size_t found = 0;
  Expect(ls_artifact_find_symbol(artifact, in.Byte() % 2 ? "S" : "T", &found));
}

void Call(ls_session* session, Source& in) {
  std::vector<std::byte> memory(256);
  ls_tensor out[2] = {};
  size_t size = 0;
  switch (in.Byte() % 14) {
    case 0:
    case 1: {
      std::vector<Tensor> tensors;
      tensors.reserve(4);
      const size_t count = std::clamp<int64_t>(in.Number(), 0, 4);
      std::vector<ls_tensor> inputs;
      for (size_t i = 0; i < count; ++i) inputs.push_back(tensors.emplace_back(in).tensor);
      out[0] = {0, 0, nullptr, memory.data(), static_cast<size_t>(in.Byte())};
      const size_t outputs = in.Byte() % 3;
      Expect(ls_session_run(session, inputs.data(), count, outputs ? out : nullptr, outputs));
      break;
    }
    case 2: {
      const Tensor tensor(in);
      Expect(ls_session_bind(session, &tensor.tensor, 1));
      break;
    }
    case 3: {
      int64_t values[4];
      for (int64_t& value : values) value = in.Number();
      Expect(ls_session_bind_symbols(session, values, in.Byte() % 5));
      break;
    }
    case 4: Expect(ls_session_output(session, in.Byte() % 4, out)); break;
    case 5: Expect(ls_session_set_cancelled(session, in.Byte() % 2)); break;
    case 6: Expect(ls_session_trim(session)); break;
    case 7: {
      ls_stats stats = {};
      stats.struct_size = in.Byte() % 2 ? sizeof(stats) : in.Byte() % sizeof(stats);
      Expect(ls_session_stats(session, &stats));
      break;
    }
    case 8: Expect(ls_session_read_state(session, "last", memory.data(), in.Byte() % 16)); break;
    case 9: Expect(ls_session_write_state(session, "last", memory.data(), in.Byte() % 16)); break;
    case 10: Expect(ls_session_reset_states(session)); break;
    case 11: Expect(ls_session_snapshot(session, memory.data(), in.Byte(), &size)); break;
    case 12: Expect(ls_session_restore(session, memory.data(), in.Byte() % 32)); break;
    default: {
      int64_t values[4];
      Expect(ls_session_symbol_values(session, values, in.Byte() % 5));
      Expect(ls_session_profile_count(session, &size));
      ls_profile_entry entry = {};
      entry.struct_size = sizeof(entry);
      Expect(ls_session_profile(session, in.Byte(), &entry));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::byte> good = GoodModel();
  Source in(data, size);
  std::vector<std::byte> bytes = good;
  const bool hostile = in.Byte() % 2;
  if (hostile) {
    const size_t length = in.Byte() | size_t{in.Byte()} << 8;
    bytes = in.Take(length);
    artifact::Reseal(bytes);  // few mutations pass a checksum
  }
  ls_artifact* loaded = nullptr;
  Expect(ls_artifact_load_memory(bytes.data(), bytes.size(), nullptr, &loaded));
  if (loaded == nullptr) return 0;
  Describe(loaded, in);
  ls_session_options options = {};
  options.struct_size = sizeof(options);
  options.backend = hostile ? "null" : "cpu";
  options.threads = 1;
  options.profile = in.Byte() % 2;
  ls_session* session = nullptr;
  Expect(ls_session_create(loaded, &options, &session));
  ls_artifact_free(loaded);
  if (session != nullptr)
    for (int calls = 0; !in.empty() && calls < 64; ++calls) Call(session, in);
  ls_session_free(session);
  return 0;
}
