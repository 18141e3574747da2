// A GPU as this backend sees one: a handful of objects made at load, a list of commands a run. It says what
// WebGPU says and no more, so that webgpu.h (native_device.h) and navigator.gpu can both stand behind it: no
// threads, no exceptions, and nothing that must wait except Poll.
//
//   LS_ASSIGN_OR_RETURN(auto device, gpu::OpenDevice({}));
//   BufferId x = device->CreateBuffer(4096, kStorage, "x"), back = device->CreateBuffer(4096, kReadback, "back");
//   ShaderId shader = device->CreateShader(wgsl, "double");
//   PipelineId pipeline = device->CreatePipeline(shader, {Binding::kStorage}, "double");
//   GroupId group = device->CreateGroup(pipeline, {{x, 0, 4096}}, "double");
//   LS_RETURN_IF_ERROR(device->error());                       // of any of the above
//   device->Write(x, 0, bytes);
//   const Command list[] = {Command::Dispatch(pipeline, group, 16), Command::Copy(x, 0, back, 0, 4096)};
//   LS_RETURN_IF_ERROR(device->Encode(list));                  // command buffers are single-use: encode a run
//   LS_RETURN_IF_ERROR(device->Submit());
//   LS_RETURN_IF_ERROR(device->Map(back, 4096));               // asked for; there once Poll says so
//   LS_RETURN_IF_ERROR(device->Poll(/*wait=*/true));           // a browser cannot wait: it polls again later
//   use(device->Mapped(back)); device->Unmap(back);
//
// Errors are sticky, as WebGPU reports them late: the first is kept with the label of what was being made, and
// from then on every call does nothing. Nothing invalid is ever submitted: that would abort the process.
// Objects live as long as their device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace liveshape::gpu {

struct Limits {
  uint64_t buffer_bytes = 0;     // of one buffer
  uint64_t binding_bytes = 0;    // of one storage binding
  uint32_t uniform_bytes = 0;    // of one uniform binding
  uint32_t storage_buffers = 0;  // bindings of one dispatch
  uint32_t workgroup_bytes = 0;
  uint32_t workgroup_invocations = 0;
  uint32_t workgroup_count = 0;   // in one dimension
  uint32_t offset_alignment = 0;  // of bindings: the larger of uniform and storage
};

// What WebGPU promises everywhere. The suite also runs with these, asked for at device creation.
inline constexpr Limits kSmallestLimits = {256u << 20, 128u << 20, 64u << 10, 8,
                                           16u << 10,  128,        65535,     256};

struct Features {
  bool f16 = false, subgroups = false, timestamps = false;
  uint32_t subgroup_size = 0;  // of a device: probed (probe.h); 0: shaders must do without
};

struct AdapterInfo {
  std::string name;     // "NVIDIA H200"
  std::string driver;   // as the driver describes itself
  std::string backend;  // "vulkan", "metal", "d3d12"
  std::string kind;     // "discrete", "integrated", "cpu", "unknown"
  Limits limits;
  Features features;
};

struct DeviceOptions {
  // An adapter by position in ListAdapters, or by a part of its name. Empty: LIVESHAPE_ADAPTER if set, else the
  // first discrete one, else integrated, else any.
  std::string adapter = {};
  Limits at_most = {};  // 0: what the adapter has. offset_alignment is a floor, not a ceiling
  bool f16 = true, subgroups = true, timestamps = false;  // asked for where the adapter has them
};

enum class BufferId : uint32_t {};
enum class ShaderId : uint32_t {};
enum class PipelineId : uint32_t {};
enum class GroupId : uint32_t {};

enum class BufferUse : uint8_t {
  kStorage,   // bound by shaders, copied from and to, written by Write
  kUniform,   // small numbers, written by Write
  kReadback,  // target of copies, read by Map
};
enum class Binding : uint8_t { kUniform, kStorage };  // kStorage is read_write, see docs/webgpu.md

struct BoundRange {
  BufferId buffer;
  uint64_t offset = 0, bytes = 0;
};

struct Command {
  enum class Kind : uint8_t { kDispatch, kCopy, kClear } kind = Kind::kDispatch;
  PipelineId pipeline = {};  // kDispatch
  GroupId group = {};
  std::array<uint32_t, 3> counts = {};
  BufferId from = {},
           to = {};  // kCopy, and kClear (`to` only); offsets and bytes are multiples of 4
  uint64_t from_offset = 0, to_offset = 0, bytes = 0;
  friend bool operator==(const Command&, const Command&) = default;

  static Command Dispatch(PipelineId pipeline, GroupId group, uint32_t x, uint32_t y = 1) {
    return {.pipeline = pipeline, .group = group, .counts = {x, y, 1}};
  }
  static Command Copy(BufferId from, uint64_t from_offset, BufferId to, uint64_t to_offset,
                      uint64_t bytes) {
    return {.kind = Kind::kCopy,
            .from = from,
            .to = to,
            .from_offset = from_offset,
            .to_offset = to_offset,
            .bytes = bytes};
  }
  static Command Clear(BufferId to, uint64_t offset, uint64_t bytes) {
    return {.kind = Kind::kClear, .to = to, .to_offset = offset, .bytes = bytes};
  }
};

// How many objects were ever made: equal before and after a run, or something was built in it (W1).
struct Counts {
  uint32_t buffers = 0, shaders = 0, pipelines = 0, groups = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

class Device {
 public:
  virtual ~Device() = default;
  const AdapterInfo& adapter() const { return adapter_; }
  const Limits& limits() const { return limits_; }        // granted, not the adapter's
  const Features& features() const { return features_; }  // granted
  const Counts& created() const { return created_; }
  // Allocations that the library made inside our calls; the session's own detector does not count them.
  uint64_t library_allocations() const { return library_allocations_; }

  virtual BufferId CreateBuffer(uint64_t bytes, BufferUse use, std::string_view label) = 0;
  virtual ShaderId CreateShader(std::string_view wgsl, std::string_view label) = 0;
  // The layout is explicit: binding i of group 0 is bindings[i]. The entry point is `main`.
  virtual PipelineId CreatePipeline(ShaderId shader, std::span<const Binding> bindings,
                                    std::string_view label) = 0;
  virtual GroupId CreateGroup(PipelineId pipeline, std::span<const BoundRange> ranges,
                              std::string_view label) = 0;
  // Room for the times of `dispatches` dispatches; needs Features::timestamps.
  virtual void CreateTimestamps(uint32_t dispatches) = 0;

  // The first error of any call since the device was opened; kResourceExhausted where memory ran out,
  // kFailedPrecondition where the device is lost.
  virtual Status error() const = 0;

  virtual void Write(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Encodes a run, in order, as one command buffer. With `timed` each dispatch is a pass of its own, whose times
  // Submit will bring. What was encoded before and not submitted is dropped.
  virtual Status Encode(std::span<const Command> commands, bool timed = false) = 0;
  virtual Status Submit() = 0;

  // Asks for the first `bytes` of a readback buffer. One map a buffer at a time.
  virtual Status Map(BufferId buffer, uint64_t bytes) = 0;
  // Lets callbacks happen; with `wait`, until the queue is empty and every Map asked for is there.
  virtual Status Poll(bool wait) = 0;
  virtual std::span<const std::byte> Mapped(BufferId buffer) const = 0;  // empty: not there
  virtual void Unmap(BufferId buffer) = 0;
  // Of the last timed Submit, microseconds by dispatch in order; reads back, so it waits.
  virtual Status ReadTimestamps(std::span<double> us) = 0;

  // For tests: what a driver does to us.
  virtual void Lose() = 0;

 protected:
  AdapterInfo adapter_;
  Limits limits_;
  Features features_;
  Counts created_;
  uint64_t library_allocations_ = 0;
};

// kNotFound: no library, or no adapter; kUnsupported: this build has no WebGPU. The message says what to do.
Result<std::vector<AdapterInfo>> ListAdapters();
Result<std::unique_ptr<Device>> OpenDevice(const DeviceOptions& options);

}  // namespace liveshape::gpu
