// The parts of `liveshape dump`: each renders what one kind of file says.
//
//   fmt::print("{}", ArtifactDump(artifact, DumpFormat::kText));
#pragma once

#include <memory>
#include <string>

#include "base/memory.h"
#include "base/status.h"
#include "liveshape/liveshape.h"

namespace liveshape::cli {

enum class DumpFormat : uint8_t { kText, kJson, kDot };

// Graph, symbols, constants, states, and the plan of every backend. JSON is one value without a newline.
std::string ArtifactDump(const std::shared_ptr<const Artifact>& artifact, DumpFormat format);

// An ExecuTorch program: methods, delegates, segments; blobs of ours as ArtifactDump shows them. As dot: one graph for
// each of those, and an error where there is none.
Result<std::string> PteDump(std::shared_ptr<const MappedFile> file, DumpFormat format);

}  // namespace liveshape::cli
