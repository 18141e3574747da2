// Every number that changes at a bind: the params that shaders read, and workgroup counts and copy sizes that the
// host reads. Numbers of the plan's block are taken from there; those that only a GPU asks for (counts) are a second
// short shape program over the same symbols. A bind evaluates it, gathers, and writes one buffer, once.
//
//   Numbers numbers;
//   numbers.Begin(graph.table(), device.limits().offset_alignment);
//   uint32_t groups = numbers.Slot(CeilDiv(s, 64));
//   uint32_t offset = numbers.AddParams(dispatch.params);     // bytes into the buffer; equal params share a place
//   LS_RETURN_IF_ERROR(numbers.Finish(device));
//   ...
//   LS_RETURN_IF_ERROR(numbers.Bind(device, block));          // before each run; writes only what is new
//   numbers.at(groups);
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/webgpu/kernel.h"
#include "sym/program.h"

namespace liveshape::webgpu {

class Numbers {
 public:
  void Begin(sym::Table& table, uint32_t alignment);
  uint32_t Slot(Expr e) { return builder_->Slot(e); }
  uint32_t AddParams(std::span<const Param> params);
  Status Finish(gpu::Device& device);

  // `block` is the plan's, of the live shape; it begins with the symbols.
  Status Bind(gpu::Device& device, std::span<const int64_t> block);
  int64_t at(uint32_t slot) const { return own_[slot]; }
  gpu::BufferId buffer() const { return buffer_; }
  static uint32_t BytesOf(std::span<const Param> params);  // of their uniform struct

 private:
  struct Source {
    uint32_t word;  // in the buffer
    uint32_t slot;
    bool own;  // in own_, else in the plan's block
    Param::Kind kind;
  };
  std::unique_ptr<sym::ProgramBuilder> builder_;
  sym::ShapeProgram program_;
  uint32_t alignment_ = 256;
  std::map<std::vector<uint64_t>, uint32_t> places_;  // slots of a list of params -> offset
  std::vector<Source> sources_;
  std::vector<int64_t> own_;
  std::vector<uint32_t> words_, written_;
  bool fresh_ = true;
  gpu::BufferId buffer_ = {};
};

}  // namespace liveshape::webgpu
