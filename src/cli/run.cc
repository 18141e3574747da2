// liveshape run: .npy or safetensors in and out, one session for all steps.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "cli/common.h"
#include "cli/load.h"
#include "cli/npy.h"
#include "cli/options.h"
#include "cli/profile.h"
#include "cli/safetensors.h"

namespace liveshape::cli {
namespace {

// The inputs of one step, in artifact order, and what they lie in.
struct StepInputs {
  std::vector<NpyFile> files;
  std::vector<SafetensorsFile> archives;
  std::vector<HostTensor> integers;  // `--input n=7` for a SymInt
  std::vector<TensorRef> tensors;
};

std::string Describe(const PortDescription& port) {
  if (port.scalar) return "an integer";
  return fmt::format("{}[{}]", Name(port.dtype), fmt::join(port.dims, ", "));
}

// What the last assignment to an input says: a tensor of an archive, or a file or number as written.
struct Given {
  std::string value;
  const TensorRef* tensor = nullptr;
};

// `assignments` as written: a later one for the same input wins, so that a step overrides what is common.
Result<std::vector<Given>> ReadAssignments(const Artifact& artifact,
                                           std::span<const std::string> assignments,
                                           std::vector<SafetensorsFile>& archives) {
  std::vector<Given> given(artifact.inputs().size());
  archives.reserve(assignments.size());  // `given` points into them
  for (const std::string& text : assignments) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos && IsSafetensorsName(text)) {
      LS_ASSIGN_OR_RETURN(SafetensorsFile archive, SafetensorsFile::Open(text));
      archives.push_back(std::move(archive));
      for (const auto& [name, tensor] : archives.back().tensors()) {
        LS_ASSIGN_OR_RETURN(const size_t input, FindInput(artifact, name));
        given[input] = {text, &tensor};
      }
      continue;
    }
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return InvalidArgument(
          "--input `{}`: should read NAME=FILE.npy, POSITION=FILE.npy or FILE.safetensors", text);
    LS_ASSIGN_OR_RETURN(const size_t input,
                        FindInput(artifact, std::string_view(text).substr(0, equals)));
    given[input] = {text.substr(equals + 1)};
    if (!IsSafetensorsName(given[input].value)) continue;
    LS_ASSIGN_OR_RETURN(SafetensorsFile archive, SafetensorsFile::Open(given[input].value));
    archives.push_back(std::move(archive));
    LS_ASSIGN_OR_RETURN(given[input].tensor, archives.back().Find(artifact.inputs()[input].name));
  }
  return given;
}

Result<StepInputs> LoadInputs(const Artifact& artifact, std::span<const std::string> assignments) {
  const auto& ports = artifact.inputs();
  StepInputs step;
  LS_ASSIGN_OR_RETURN(const std::vector<Given> given,
                      ReadAssignments(artifact, assignments, step.archives));
  for (size_t i = 0; i < ports.size(); ++i) {
    if (given[i].tensor) {
      step.tensors.push_back(*given[i].tensor);
      continue;
    }
    const std::string& value = given[i].value;
    if (value.empty())
      return InvalidArgument("input {} `{}`, {}, is missing: add --input {}=FILE.npy", i,
                             ports[i].name, Describe(ports[i]), ports[i].name);
    if (const auto number = ParseInt(value); ports[i].scalar && number.ok()) {
      HostTensor& integer = step.integers.emplace_back(DType::kI64, std::vector<int64_t>{});
      std::memcpy(integer.data(), &*number, sizeof(int64_t));
      step.tensors.push_back(integer.ref());  // the bytes do not move when `integers` grows
      continue;
    }
    LS_ASSIGN_OR_RETURN(NpyFile file,
                        NpyFile::Open(value, {.uint16_is_bf16 = ports[i].dtype == DType::kBF16}));
    step.tensors.push_back(file.tensor());
    step.files.push_back(std::move(file));
  }
  return step;
}

std::string FileName(size_t index, std::string_view name) {
  std::string safe;
  for (const char c : name.substr(0, 100))
    safe +=
        std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ? c : '_';
  return fmt::format("{:02}_{}.npy", index, safe.empty() ? "out" : safe);
}

Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return InvalidArgument("cannot make directory `{}`: {}", path, error.message());
  return {};
}

struct WrittenOutput {
  std::string name, file;
  DType dtype;
  std::vector<int64_t> dims;
};

// A name that an earlier output has gets its position: the names of an archive are unique.
std::string ArchiveName(const Artifact& artifact, size_t index) {
  const auto& ports = artifact.outputs();
  for (size_t i = 0; i < index; ++i)
    if (ports[i].name == ports[index].name) return fmt::format("{}.{}", ports[index].name, index);
  return ports[index].name;
}

// `out`: a directory of .npy files, one .safetensors file, or empty.
Result<std::vector<WrittenOutput>> WriteOutputs(const Artifact& artifact, const Session& session,
                                                const std::string& out) {
  std::vector<WrittenOutput> written;
  std::vector<std::pair<std::string, TensorRef>> archive;
  const bool together = IsSafetensorsName(out);
  if (!out.empty() && !together) LS_RETURN_IF_ERROR(MakeDirectory(out));
  for (size_t i = 0; i < session.output_count(); ++i) {
    const TensorRef& output = session.output(i);
    WrittenOutput entry{artifact.outputs()[i].name, "", output.dtype, output.dims};
    if (together) {
      entry.file = out;
      archive.emplace_back(ArchiveName(artifact, i), output);
    } else if (!out.empty()) {
      entry.file = out + "/" + FileName(i, entry.name);
      LS_RETURN_IF_ERROR(WriteNpy(entry.file, output));
    }
    written.push_back(std::move(entry));
  }
  if (together) LS_RETURN_IF_ERROR(WriteSafetensors(out, archive));
  return written;
}

Status Run(const RunOptions& options) {
  LS_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options.model, options.constants));
  const std::shared_ptr<const Artifact>& artifact = model.artifact;
  // Everything is read before anything runs: a wrong file in the last step costs nothing.
  std::vector<StepInputs> steps;
  const bool several = !options.steps.empty();
  if (several && IsSafetensorsName(options.out))
    return InvalidArgument("--out `{}`: with --step it is a directory, one below it a step",
                           options.out);
  for (size_t n = 0; n < (several ? options.steps.size() : 1); ++n) {
    std::vector<std::string> assignments = options.inputs;
    if (several)
      assignments.insert(assignments.end(), options.steps[n].begin(), options.steps[n].end());
    auto inputs = LoadInputs(*artifact, assignments);
    if (!inputs.ok())
      return several ? std::move(inputs).status().Prefixed(fmt::format("step {}", n))
                     : inputs.status();
    steps.push_back(*std::move(inputs));
  }
  LS_ASSIGN_OR_RETURN(auto backend, MakeBackend(options.backend, options.threads, options.profile));
  std::optional<Profiler> profiler;
  if (options.profile) {
    LS_ASSIGN_OR_RETURN(profiler, Profiler::Make(*artifact, *backend, options.threads));
  }
  LS_ASSIGN_OR_RETURN(auto session,
                      Session::Create(artifact, std::move(backend),
                                      {.strict = options.strict, .profile = options.profile}));
  const bool computes = options.backend != "null";
  JsonWriter json;
  Status failed;
  json.Object([&] {
    json.Key("steps").Array([&] {
      for (size_t n = 0; n < steps.size() && failed.ok(); ++n) {
        const auto step = [&]() -> Status {
          LS_RETURN_IF_ERROR(session->Run(steps[n].tensors));
          if (profiler) LS_RETURN_IF_ERROR(profiler->AddRun(session->symbol_values()));
          std::string out;
          if (!options.out.empty() && computes)
            out = several ? fmt::format("{}/{}", options.out, n) : options.out;
          LS_ASSIGN_OR_RETURN(auto outputs, WriteOutputs(*artifact, *session, out));
          const Stats stats = session->stats();
          const Point shape = LiveShape(*artifact, session->symbol_values());
          json.Object([&] {
            WriteShape(json.Key("shape"), shape);
            json.Field("ms", stats.last_run_ms).Field("bind_us", stats.last_bind_us);
            json.Key("outputs").Array([&] {
              for (const WrittenOutput& output : outputs)
                json.Object([&] {
                  json.Field("name", output.name)
                      .Field("file", output.file)
                      .Field("dtype", Name(output.dtype));
                  json.Key("dims").Array([&] {
                    for (const int64_t dim : output.dims) json.Value(dim);
                  });
                });
            });
          });
          if (!options.json) {
            fmt::print("{}: {:.3f} ms, bind {:.1f} µs\n", ToString(shape), stats.last_run_ms,
                       stats.last_bind_us);
            for (const WrittenOutput& output : outputs)
              fmt::print("  {} {}[{}]{}{}\n", output.name, Name(output.dtype),
                         fmt::join(output.dims, ", "), output.file.empty() ? "" : " -> ",
                         output.file);
          }
          return {};
        };
        failed = step();
        if (!failed.ok() && several) failed = std::move(failed).Prefixed(fmt::format("step {}", n));
      }
    });
    WriteCounters(json, session->stats());
    json.Field("computed", computes);
    if (profiler) profiler->Write(json, session->profile());
  });
  if (!failed.ok()) return failed;
  if (options.json) {
    fmt::print("{}\n", json.text());
    return {};
  }
  if (!computes)
    fmt::print("the null backend computes nothing: shapes only, no file was written\n");
  if (options.strict) fmt::print("strict: {}\n", Counters(session->stats()));
  if (profiler) profiler->Print(session->profile());
  return {};
}

}  // namespace

int RunRun(const RunOptions& options) {
  const Status status = Run(options);
  return status.ok() ? kGood : Fail("run", status, options.json);
}

}  // namespace liveshape::cli
