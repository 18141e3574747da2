// Artifacts as the subcommands open them, with the constants that an artifact names but does not hold.
//
//   LS_ASSIGN_OR_RETURN(LoadedModel model, LoadModel("model.live", {"head.weight=head.npy"}));
//   Session::Create(model.artifact, ...);                     // `model` outlives it: data is borrowed
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/npy.h"
#include "cli/safetensors.h"
#include "liveshape/liveshape.h"

namespace liveshape::cli {

struct LoadedModel {
  std::vector<NpyFile> constants;
  std::vector<SafetensorsFile> archives;
  std::shared_ptr<const Artifact> artifact;
};

// `constants` as --constant gives them: NAME=FILE.npy, NAME=FILE.safetensors, or FILE.safetensors for all it names.
Result<LoadedModel> LoadModel(const std::string& path, std::span<const std::string> constants);

// To describe, plan or cost a model, not to run it: external constants stay without data.
Result<std::shared_ptr<const Artifact>> LoadDescription(const std::string& path);

}  // namespace liveshape::cli
