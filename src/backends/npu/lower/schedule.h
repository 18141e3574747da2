// A tile program made ready to walk: expressions are instructions over numbered slots, each evaluated in the block of
// the innermost loop it depends on; records are made once and patched where a number changes. The walker (walk.cc) and
// the source generator (producer/source.h) follow the same schedule, which is why their records are equal.
#pragma once

#include "backends/npu/lower/kernel.h"

namespace liveshape::npu {

struct Instruction {
  sym::Kind op;
  uint32_t out, a, b, c;
};

// records[at .. at + 8) = slot.
struct Patch { uint32_t at, slot; };
// The uint32 at `at` is the version of `buffer` whose turn it is.
struct VersionPatch { uint32_t at, buffer; };

enum class RecordKind : uint8_t { kDispatch, kDma, kCompute, kBarrier };

struct ScheduledStatement;

// Evaluated on entry to the block: once an iteration of its loop.
struct ScheduledBlock {
  std::vector<Instruction> instructions;
  std::vector<Patch> patches;
  std::vector<ScheduledStatement> statements;
};

struct ScheduledStatement {
  enum class Kind : uint8_t { kLoop, kIf, kItem, kRecord } kind;
  RecordKind record = RecordKind::kDispatch;
  uint32_t slot = 0;      // loop: its count; if: its condition
  uint32_t variable = 0;  // loop: slot of its variable
  uint32_t at = 0;        // record: where it lies in Schedule::records
  std::vector<VersionPatch> versions;
  ScheduledBlock body;
};

struct Schedule {
  uint32_t arguments = 0;  // slots 0 ... are the shape_args
  uint32_t slots = 0;
  std::vector<std::pair<uint32_t, int64_t>> constants;  // slot, value
  std::vector<std::string> names;                       // by slot; empty: has none
  uint32_t variant = 0;                                 // slot
  std::vector<std::byte> records;                       // one after another, unset numbers 0
  ScheduledBlock body;
};

Result<std::shared_ptr<const Schedule>> MakeSchedule(const TileProgram& program,
                                                     std::span<const Buffer> buffers);

// One kernel's walk with memory of its own, so that walking allocates nothing.
class Walker {
 public:
  explicit Walker(const Kernel& kernel);
  int Walk(std::span<const int64_t> shape_args, const ls_trace_sink& sink);

 private:
  int Run(const ScheduledBlock& block);
  int Emit(const ScheduledStatement& statement);
  uint32_t VersionOf(uint32_t buffer) const;

  const Kernel* kernel_;
  std::vector<int64_t> slots_;
  std::vector<std::byte> records_;
  const ls_trace_sink* sink_ = nullptr;
  int64_t tile_ = -1, item_ = -1;
};

}  // namespace liveshape::npu
