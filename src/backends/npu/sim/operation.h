// A record on its way through a core, and the kernel it belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/npu/cost/cost.h"
#include "backends/npu/machine/attributes.h"
#include "liveshape/trace.h"

namespace liveshape::npu {

// What a kernel is to the simulator; it outlives the walk. `buffers` is laid out as in ls_trace_kernel.
struct KernelView {
  std::string_view name;
  std::span<const Code> codes;
  std::span<const ls_trace_buffer> buffers;  // [variant * buffers_per_variant + b]
  uint32_t buffers_per_variant = 0;
  std::span<const TensorAddress> tensors;  // by argument
};

enum class Track : uint8_t { kArray, kVector, kDma, kCount };

// Why a unit had nothing to do.
enum class Stall : uint8_t {
  kLaunch,   // the kernel had not begun
  kLoad,     // data were on their way
  kStore,    // a buffer was still being stored
  kCompute,  // the other unit, or an earlier result's latency
  kTiles,    // every tile in flight was at work elsewhere
  kEnd,      // nothing was left for it
  kCount,
};
const char* ToString(Stall stall);

// Something a unit did, for traces.
struct Slice {
  uint32_t core = 0;
  Track track = Track::kArray;
  std::string_view name;
  int64_t tile = 0, begin = 0, end = 0;
};
using Observer = std::function<void(const Slice&)>;

struct Operation {
  enum class Kind : uint8_t { kLoad, kStore, kArray, kVector };
  static constexpr size_t kMostOperands = LS_TRACE_MAX_OPERANDS + 1;

  Kind kind = Kind::kLoad;
  uint32_t generation = 0;  // of its place in the pool: how a stale reference is told
  uint32_t tile_slot = 0;
  int64_t tile = 0;
  // Buffer versions, numbered through: the first `outputs` are written, the others read.
  std::array<uint32_t, kMostOperands> version = {};
  uint32_t versions = 0, outputs = 0;
  uint32_t loads_before = 0;  // loads of its tile that a barrier makes it wait for
  const Cost* cost = nullptr;
  std::string_view name;
  ls_trace_dma dma = {};

  // While in flight.
  uint32_t waits = 0;                // operations that must complete first
  std::vector<uint32_t> dependents;  // that wait for this one
  Stall last_wait = Stall::kTiles;
  int64_t ready = 0, begin = 0, end = 0;
  int64_t bursts_out = 0;
  bool all_sent = false;

  bool is_dma() const { return kind == Kind::kLoad || kind == Kind::kStore; }
};

}  // namespace liveshape::npu
