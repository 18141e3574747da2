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

namespace {

bool NamesExternal(const ir::Graph& graph, std::string_view name, DType* dtype) {
  for (const ir::Constant& constant : graph.constants) {
    if (constant.external != name) continue;
    *dtype = constant.dtype;
    return true;
  }
  return false;
}

Status Give(Artifact::LoadOptions& options, const std::string& name, const TensorRef& tensor) {
  if (options.external_constants.try_emplace(name, tensor).second) return {};
  return InvalidArgument("--constant gives `{}` twice", name);
}

// A checkpoint holds more than the artifact names: only that is taken.
Status TakeAll(const SafetensorsFile& archive, const std::string& path, const ir::Graph& graph,
               Artifact::LoadOptions& options) {
  const size_t before = options.external_constants.size();
  DType dtype;
  for (const auto& [name, tensor] : archive.tensors())
    if (NamesExternal(graph, name, &dtype)) LS_RETURN_IF_ERROR(Give(options, name, tensor));
  if (options.external_constants.size() > before) return {};
  return NotFound("--constant {}: the artifact names none of its {} tensors", path,
                  archive.tensors().size());
}

}  // namespace

Result<LoadedModel> LoadModel(const std::string& path, std::span<const std::string> constants) {
  LoadedModel model;
  Artifact::LoadOptions options;
  if (!constants.empty()) {
    LS_ASSIGN_OR_RETURN(auto description, LoadDescription(path));
    for (const std::string& text : constants) {
      const size_t equals = text.rfind('=');  // a name may have one, a file had better not
      const std::string file = text.substr(equals == std::string::npos ? 0 : equals + 1);
      const bool archive = IsSafetensorsName(file);
      if (equals == 0 || file.empty() || (equals == std::string::npos && !archive))
        return InvalidArgument(
            "--constant `{}`: should read NAME=FILE.npy, NAME=FILE.safetensors or FILE.safetensors",
            text);
      if (archive) {
        LS_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(file));
        const SafetensorsFile& held = model.archives.emplace_back(std::move(opened));
        if (equals == std::string::npos) {
          LS_RETURN_IF_ERROR(TakeAll(held, file, description->graph(), options));
          continue;
        }
        LS_ASSIGN_OR_RETURN(const TensorRef* tensor, held.Find(text.substr(0, equals)));
        LS_RETURN_IF_ERROR(Give(options, text.substr(0, equals), *tensor));
        continue;
      }
      const std::string name = text.substr(0, equals);
      DType dtype = DType::kF32;
      NamesExternal(description->graph(), name, &dtype);
      LS_ASSIGN_OR_RETURN(NpyFile opened,
                          NpyFile::Open(file, {.uint16_is_bf16 = dtype == DType::kBF16}));
      LS_RETURN_IF_ERROR(Give(options, name, opened.tensor()));
      model.constants.push_back(std::move(opened));
    }
  }
  LS_ASSIGN_OR_RETURN(model.artifact, Artifact::Load(path, options));
  return model;
}

}  // namespace liveshape::cli
