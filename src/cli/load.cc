#include "cli/load.h"

#include "artifact/load.h"
#include "base/memory.h"
#include "ir/graph.h"

namespace liveshape::cli {

Result<std::shared_ptr<const Artifact>> LoadDescription(const std::string& path) {
  LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  auto graph = artifact::LoadGraph(file->bytes(), file);
  if (!graph.ok()) return std::move(graph).status().Prefixed(fmt::format("`{}`", path));
  return Artifact::FromGraph(*std::move(graph));
}

Result<LoadedModel> LoadModel(const std::string& path, std::span<const std::string> constants) {
  LoadedModel model;
  Artifact::LoadOptions options;
  if (!constants.empty()) {
    LS_ASSIGN_OR_RETURN(auto description, LoadDescription(path));
    for (const std::string& text : constants) {
      const size_t equals = text.rfind('=');  // a name may have one, a file had better not
      if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        return InvalidArgument("--constant `{}`: should read NAME=FILE.npy", text);
      const std::string name = text.substr(0, equals);
      bool bf16 = false;
      for (const ir::Constant& constant : description->graph().constants)
        bf16 = bf16 || (constant.external == name && constant.dtype == DType::kBF16);
      LS_ASSIGN_OR_RETURN(NpyFile file,
                          NpyFile::Open(text.substr(equals + 1), {.uint16_is_bf16 = bf16}));
      if (!options.external_constants.try_emplace(name, file.tensor()).second)
        return InvalidArgument("--constant gives `{}` twice", name);
      model.constants.push_back(std::move(file));
    }
  }
  LS_ASSIGN_OR_RETURN(model.artifact, Artifact::Load(path, options));
  return model;
}

}  // namespace liveshape::cli
