// Reads an artifact. The bytes may be anything: everything is checked before it is believed, and no
// allocation is larger than a small multiple of the file.
//
//   LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open("model.live"));
//   artifact::LoadInfo info;
//   LS_ASSIGN_OR_RETURN(auto graph, artifact::LoadGraph(file->bytes(), file, &info));
//
// The graph's constants point into the bytes. External constants (Constant::external) come without data:
// BindExternals gives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "ir/graph.h"
#include "liveshape/liveshape.h"

namespace liveshape::artifact {

struct LoadInfo {
  uint16_t major = 0, minor = 0;  // of the file's format
  std::string producer;           // "liveshape 0.1.0"
  size_t graph_bytes = 0;
  size_t constant_bytes = 0;
  size_t copied_constant_bytes = 0;  // because the segment was not aligned in memory
};

// `owner` keeps `bytes` alive; `info` may be null.
Result<std::unique_ptr<ir::Graph>> LoadGraph(std::span<const std::byte> bytes,
                                             std::shared_ptr<const void> owner,
                                             LoadInfo* info = nullptr);

// Gives every external constant its data: names, dtypes and dims must match (one that is packed or quantised comes
// as the u8[n] of its stored bytes), all of them must be given and no other. The data is borrowed, so it must outlive the graph, except where it is not 64-byte aligned:
// then it is copied. Returns the bytes copied.
Result<size_t> BindExternals(ir::Graph& graph, const std::map<std::string, TensorRef>& given);

}  // namespace liveshape::artifact
