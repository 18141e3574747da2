#include "backends/npu/producer/library.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

extern char** environ;

namespace liveshape::npu {
namespace {

namespace fs = std::filesystem;

bool IsProgram(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::string OnPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return IsProgram(name) ? name : "";
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string candidate = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (IsProgram(candidate)) return candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return "";
}

Result<std::string> FindCompiler() {
  for (const char* variable : {"LIVESHAPE_CXX", "CXX"})
    if (const char* named = std::getenv(variable); named && *named) {
      if (std::string found = OnPath(named); !found.empty()) return found;
      return NotFound("{} names the C++ compiler `{}`, which is not there", variable, named);
    }
  for (const char* name : {"c++", "g++", "clang++"})
    if (std::string found = OnPath(name); !found.empty()) return found;
  return NotFound(
      "no C++ compiler (c++, g++ or clang++) on the path: install one or set LIVESHAPE_CXX; the "
      "in-process walk (--producer inprocess) needs none");
}

Status WriteFile(const fs::path& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return NotFound("cannot write `{}`", path.string());
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) return DataLoss("writing `{}` failed", path.string());
  return {};
}

bool Runs(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  int state = -1;
  return posix_spawn(&child, words[0].c_str(), nullptr, nullptr, arguments.data(), environ) == 0 &&
         waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

// Asks to be mapped near this code, half a GiB before it, which calls back for every record: a call over more than 4 GiB
// costs a Zen core 1 ns. The loader takes it as a wish, so the library works in any process.
std::string NearUs() {
  constexpr uintptr_t kPage = 1 << 21, kDistance = uintptr_t{1} << 29;
  const auto here = reinterpret_cast<uintptr_t>(&CompileProducer) & ~(kPage - 1);
  return fmt::format("-Wl,-Ttext-segment={:#x}",
                     here > 2 * kDistance ? here - kDistance : here + kDistance);
}

}  // namespace

Status CompileProducer(const std::string& source, const std::string& path) {
  LS_ASSIGN_OR_RETURN(const std::string compiler, FindCompiler());
  const std::string part = fmt::format("{}.{}", path, getpid()), from = part + ".cc";
  LS_RETURN_IF_ERROR(WriteFile(from, source));
  const std::vector<std::string> words = {
      compiler, "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o", part, from};
  std::vector<std::string> near = words;
  near.push_back(NearUs());
  // Not every linker knows the wish.
  const bool made = Runs(near) || Runs(words);
  std::error_code ignored;
  fs::remove(from, ignored);
  if (!made) {
    fs::remove(part, ignored);
    return Internal("`{}` could not compile the trace producer for `{}`", compiler, path);
  }
  std::error_code error;
  fs::rename(part, path, error);
  if (error) return DataLoss("cannot rename `{}` to `{}`: {}", part, path, error.message());
  return {};
}

Result<std::unique_ptr<Producer>> Producer::Open(const std::string& path,
                                                 const std::string& digest) {
  std::unique_ptr<Producer> producer(new Producer);
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  producer->handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (producer->handle_ == nullptr) return NotFound("trace producer `{}`: {}", path, dlerror());
  const auto get =
      reinterpret_cast<ls_trace_get_library_fn>(dlsym(producer->handle_, LS_TRACE_ENTRY));
  if (get == nullptr)
    return InvalidArgument("`{}` is no trace producer: it has no {}", path, LS_TRACE_ENTRY);
  producer->library_ = get(LS_TRACE_ABI_VERSION);
  if (producer->library_ == nullptr || producer->library_->abi_version != LS_TRACE_ABI_VERSION)
    return InvalidArgument(
        "trace producer `{}` was made for another version of the ABI than {}: make it again", path,
        LS_TRACE_ABI_VERSION);
  if (!digest.empty() && digest != producer->library_->digest)
    return InvalidArgument(
        "trace producer `{}` was made from another model or tile size ({}, not {})", path,
        producer->library_->digest, digest);
  return producer;
}

Producer::~Producer() {
  if (handle_ != nullptr) dlclose(handle_);
}

}  // namespace liveshape::npu
