// Liveshape: load an artifact once, run it exactly at every live shape.
//
//   using namespace liveshape;
//   LS_ASSIGN_OR_RETURN(auto artifact, Artifact::Load("model.live"));
//   LS_ASSIGN_OR_RETURN(auto session, Session::Create(artifact, MakeCpuBackend({.threads = 2})));
//
//   std::vector<float> x(1 * 17 * 64);
//   TensorRef input = TensorRef::Of(x.data(), {1, 17, 64});     // borrowed for the call, any alignment
//   LS_RETURN_IF_ERROR(session->Run({&input, 1}));               // binds [1, 17, 64], then runs
//   const TensorRef& y = session->output(0);                     // session memory, valid until the next
//   use(y.data, y.dims);                                         // bind, run or destruction
//
// A Session is used by one thread at a time; several sessions of one artifact may run side by side and
// share its mapped constants. After Create nothing is allocated, rebuilt or moved (options.strict makes
// that an abort); a refused shape leaves the session as it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ir/dtype.h"

namespace liveshape {

namespace ir {
class Graph;
}
class Backend;  // runtime/backend.h

// Of an output whose dim only data tells: until a run, or after one on a backend that computes nothing.
inline constexpr int64_t kUnknownDim = -1;

// A tensor in somebody's memory: row-major and dense.
struct TensorRef {
  DType dtype = DType::kF32;
  void* data = nullptr;
  std::vector<int64_t> dims;

  size_t bytes() const;
  static TensorRef Of(const float* data, std::initializer_list<int64_t> dims);
};

struct SymbolDescription {
  std::string name;     // torch's: "s43"
  std::string display;  // the Dim's name, or empty
  int64_t min = 0, max = 0;
  std::vector<std::string> enters;  // "input_ids.1": dim 1 of that input
};

struct PortDescription {
  std::string name;
  DType dtype;
  std::vector<std::string> dims;  // expressions: "S", "2*S + 1", "64"; empty and scalar: an integer
  bool scalar = false;            // a SymInt
};

class Artifact {
 public:
  struct LoadOptions {
    // Constants that the artifact names but does not hold.
    std::map<std::string, TensorRef> external_constants;
  };
  static Result<std::shared_ptr<const Artifact>> Load(const std::string& path,
                                                      const LoadOptions& options = {});
  // `owner` keeps `bytes` alive. A constant segment that is not 64-byte aligned is copied, and counted.
  static Result<std::shared_ptr<const Artifact>> Load(std::span<const std::byte> bytes,
                                                      std::shared_ptr<const void> owner,
                                                      const LoadOptions& options = {});
  ~Artifact();

  const ir::Graph& graph() const { return *graph_; }
  const std::vector<SymbolDescription>& symbols() const { return symbols_; }
  const std::vector<PortDescription>& inputs() const { return inputs_; }
  const std::vector<PortDescription>& outputs() const { return outputs_; }
  size_t copied_constant_bytes() const { return copied_constant_bytes_; }

  // A symbol by its Dim name, torch's name, or where it enters ("input_ids.1"). -1 if there is none.
  int FindSymbol(std::string_view name) const;

  // Planning a session adds expressions to the graph's table, so sessions of one artifact are planned one
  // after another; binding and running only read it.
  Mutex& planning() const { return planning_; }

  // For tests and tools that have a graph in hand and no file.
  static Result<std::shared_ptr<const Artifact>> FromGraph(std::unique_ptr<ir::Graph> graph);

 private:
  Artifact() = default;
  static std::shared_ptr<Artifact> Describe(
      std::unique_ptr<ir::Graph> graph);  // a graph that holds
  std::unique_ptr<ir::Graph> graph_;
  std::vector<SymbolDescription> symbols_;
  std::vector<PortDescription> inputs_, outputs_;
  size_t copied_constant_bytes_ = 0;
  mutable Mutex planning_;
};

struct CpuOptions {
  int threads = 0;       // 0: one per core
  std::string isa = {};  // "", "portable", "avx2", "avx512": forced in tests
};
// Owns a backend without knowing what one is: this header is all that a program needs.
struct DeleteBackend {
  DeleteBackend() = default;
  template <typename T>
  DeleteBackend(std::default_delete<T>) {}  // NOLINT: make_unique gives one
  void operator()(Backend* backend) const;
};
using BackendPtr = std::unique_ptr<Backend, DeleteBackend>;
BackendPtr MakeCpuBackend(const CpuOptions& options = {});

struct WebGpuOptions {
  std::string adapter =
      {};                // by position or part of its name; empty: LIVESHAPE_ADAPTER, or the best
  bool profile = false;  // asks the device for timestamps; SessionOptions::profile reads them
  // A smaller device than the adapter is, for tests: "smallest" (what WebGPU promises everywhere), "binding_bytes=65536",
  // ... (docs/webgpu.md); empty: LIVESHAPE_WEBGPU_LIMITS, or all that the adapter has.
  std::string limits = {};
  // Fault injection for tests of what a driver may do: "", "shader", "memory" and "features" at load, "lose" in the
  // second run.
  std::string inject = {};
};
BackendPtr MakeWebGpuBackend(const WebGpuOptions& options = {});

// An NPU as far as tile programs must know it; the defaults are one core of a TPUv3.
struct NpuOptions {
  int64_t scratchpad_bytes = 16 << 20;
  int array_rows = 128, array_cols = 128, arrays = 2;  // of a systolic array; how many
  int lanes = 128;                                     // of the vector unit
  int64_t tile = 0;  // forces a tile size; 0: chosen by the live shape
  // A machine description (machines/*.yaml): what it says takes the place of the numbers above, and every run is timed
  // (Stats::cycles). Simulating allocates: not for strict sessions.
  std::string machine = {};
};
// Values by walking tile programs through a scratchpad, DMA and all: slow, and right only if every tile is.
BackendPtr MakeNpuBackend(const NpuOptions& options = {});

BackendPtr MakeNullBackend();  // plans and binds, computes nothing

enum class Poison : uint8_t {
  kNone,
  kNaN,
  kLarge
};  // kLarge: 1e30; both 0x7f.. integers, 0xFF bool

struct SessionOptions {
  // Any allocation, rebuild or moved address after Create aborts with a message (X1).
  bool strict = false;
  // Before every run, bytes beyond what is live (slot tails, scratch, padding, the KV tail behind a
  // recognised mask) are filled, so that a stale read shows. For tests: it costs the bound.
  Poison poison = Poison::kNone;
  bool profile = false;
  // Fault injection for the tests of the detectors themselves: "", "allocate", "rebuild", "move".
  std::string inject = {};
};

struct Stats {
  bool allocations_observed = false;  // false: `allocations` says nothing
  uint64_t allocations = 0;           // inside bind and run, since Create
  uint64_t rebuilds = 0;
  uint64_t moved_addresses = 0;
  uint64_t binds = 0;  // to a new shape
  uint64_t runs = 0;
  double last_bind_us = 0;  // solve, shape program, checks and swap
  double last_run_ms = 0;
  int64_t cycles = 0;         // of the last run, where a simulator tells (NpuOptions::machine)
  size_t arena_reserved = 0;  // bytes at the bound
  size_t arena_resident = 0;  // physical now; measured when stats() is called
  size_t arena_live = 0;      // most bytes live at one time, at the live shape
  // On a device: objects made since Create, which no bind or run may change, and what the GPU's library allocated
  // inside our calls, which is not ours to promise.
  uint32_t device_buffers = 0, device_shaders = 0, device_pipelines = 0, device_bind_groups = 0;
  uint64_t device_library_allocations = 0;
};

struct ProfileEntry {
  std::string op, node, source;
  double us = 0;  // summed over the runs since Create or ResetProfile
  uint64_t calls = 0;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> Create(std::shared_ptr<const Artifact> artifact,
                                                 BackendPtr backend,
                                                 const SessionOptions& options = {});
  ~Session();

  // Makes a live shape current: all or nothing (X2). Input tensors' data is not read, except integers
  // (SymInt inputs). Binding the current shape is a compare.
  Status Bind(std::span<const TensorRef> inputs);
  // The same by symbol value, in the order of Artifact::symbols(); later-stage symbols are ignored.
  Status BindSymbols(std::span<const int64_t> values);

  // Bind and execute. Inputs in artifact order. Outputs go to session memory...
  Status Run(std::span<const TensorRef> inputs);
  // ... or to the caller's: outputs[i].data must hold the live size (dims are set by the call); an
  // output with null data goes to session memory.
  Status Run(std::span<const TensorRef> inputs, std::span<TensorRef> outputs);

  size_t output_count() const;
  const TensorRef& output(size_t i) const;  // of the last run; dims are live after Bind already...
  bool output_known_at_bind(
      size_t i) const;  // ... unless its size comes from data: kUnknownDim till Run
  std::span<const int64_t> symbol_values() const;  // the bound shape

  // On a backend with memory of its own (WebGPU) tensors may stay there between runs; elsewhere kUnsupported.
  //   session->KeepOutput(0);       // not brought back after a run: output(0).data is null, ReadOutput fetches it
  //   session->FeedInput(1, 0);     // every run ends by putting output 0 where input 1 is read
  //   inputs[1].data = nullptr;     // only dims: the input is what it was given or fed last, which had these dims
  // Not for integers and inputs that are read on the host before the first kernel (host values).
  Status KeepOutput(size_t output, bool keep = true);
  Status FeedInput(size_t input, size_t output);
  Status ReadOutput(size_t output, std::span<std::byte> destination) const;

  // States: what the graph keeps between runs.
  std::vector<std::string> state_names() const;
  Result<TensorRef> state(std::string_view name) const;  // dtype and dims; data null
  Status ReadState(std::string_view name, std::span<std::byte> destination) const;
  Status WriteState(std::string_view name, std::span<const std::byte> source);
  Status ResetStates();  // to the artifact's initial values
  Result<std::vector<std::byte>> Snapshot() const;
  Status Restore(std::span<const std::byte> snapshot);
  // A run that failed after it had begun to change states leaves the session refusing to run until
  // ResetStates or Restore.
  bool needs_reset() const;

  Stats stats() const;
  void Trim();  // physical memory down to the live shape (X5)
  std::vector<ProfileEntry> profile() const;
  void ResetProfile();
  // Checked between ops; the running Run returns kCancelled. Set it back to false to run again.
  std::atomic<bool>& cancel();

  struct PlanReport {
    size_t bytes = 0;        // of the arena at the bound
    size_t lower_bound = 0;  // max over time of the sum of live slots
    size_t slots = 0, steps = 0, copies = 0, shape_instructions = 0;
  };
  PlanReport plan_report() const;

 private:
  Session();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace liveshape
