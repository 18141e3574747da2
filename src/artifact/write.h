// Writes a graph as an artifact.
//
//   auto forget = [&](std::span<const std::byte> range) { archive->Forget(range); };
//   LS_RETURN_IF_ERROR(artifact::WriteArtifact(*graph, "model.live", forget));
//
// Constants go from their owners' memory to the file in pieces; nothing of their size is allocated.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"

namespace liveshape::artifact {

// Told of every piece of constant data after it was written and will not be read again, so that the owner
// may drop its pages: the resident set of a compile stays near one copy of the weights.
using ForgetHook = std::function<void(std::span<const std::byte>)>;

// The graph must hold (ir::Verify). Constants and initial states with the same bytes in memory (tied
// weights) are stored once; values that nothing makes are left out. Nothing is half-written.
Status WriteArtifact(const ir::Graph& graph, const std::string& path,
                     const ForgetHook& forget = {});

// The same in memory.
Result<std::vector<std::byte>> SerializeArtifact(const ir::Graph& graph);

}  // namespace liveshape::artifact
