#include "backends/webgpu/device/native_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace liveshape::gpu::native {
namespace {

// Structs of webgpu.h change between major versions; a library of another one would read ours wrongly.
constexpr uint32_t kMajorVersion = 29;

constexpr const char* kAdvice =
    "scripts/webgpu.sh fetches it; `pip install liveshape[webgpu]` or LIVESHAPE_WGPU_LIBRARY=FILE "
    "give it too";

// Of a Python environment: the CLI is in its bin/, the package `wgpu` in lib/pythonX/site-packages.
std::vector<std::filesystem::path> SitePackages(const std::filesystem::path& environment) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(environment / "lib", ignored))
    if (entry.path().filename().string().starts_with("python"))
      found.push_back(entry.path() / "site-packages");
  return found;
}

std::vector<std::string> Candidates() {
  if (const char* given = std::getenv("LIVESHAPE_WGPU_LIBRARY"); given && *given) return {given};
  std::vector<std::string> paths;
  Dl_info here = {};
  if (dladdr(reinterpret_cast<void*>(&LoadLibrary), &here) && here.dli_fname) {
    std::error_code ignored;
    // We are build/release/liveshape, python/liveshape/_core.so, or one of these in site-packages, and may be a folder
    // further down (executorch/): a few folders up there is the tree, or what pip has installed beside us.
    // A program is told by the name it was called with, which may be no path.
    const bool is_path = std::string_view(here.dli_fname).find('/') != std::string_view::npos;
    const char* file = is_path ? here.dli_fname : "/proc/self/exe";
    auto above = std::filesystem::canonical(file, ignored).parent_path();
    for (int level = 0; level < 3 && above.has_relative_path(); ++level) {
      above = above.parent_path();
      std::vector<std::filesystem::path> folders = {above / "deps/wgpu", above / "build/deps/wgpu",
                                                    above / "wgpu/resources"};
      if (level == 0)
        for (const auto& site : SitePackages(above)) folders.push_back(site / "wgpu/resources");
      for (const auto& folder : folders)
        for (const char* name : {"libwgpu_native-release.so", "libwgpu_native-release.dylib"})
          if (const auto path = folder / name; std::filesystem::exists(path, ignored))
            paths.push_back(path.string());
    }
  }
  paths.push_back("libwgpu_native.so");
  return paths;
}

Result<Library> Open() {
  void* handle = nullptr;
  std::string tried, path;
  for (const std::string& candidate : Candidates()) {
    path = candidate;
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) break;
    const char* reason = dlerror();
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", reason ? reason : candidate);
  }
  if (handle == nullptr) return NotFound("webgpu: no wgpu-native library ({}); {}", tried, kAdvice);
  Library library;
#define LS_FIND(name)                                                                   \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, "wgpu" #name)); \
  if (library.name == nullptr)                                                          \
    return Unsupported("webgpu: {} has no function wgpu" #name "; {}", path, kAdvice);
  LS_WGPU_FUNCTIONS(LS_FIND)
#undef LS_FIND
  const uint32_t version = library.GetVersion();
  if (version >> 24 != kMajorVersion)
    return Unsupported("webgpu: {} is wgpu-native {}.{}, this build speaks {}; {}", path,
                       version >> 24, (version >> 16) & 0xff, kMajorVersion, kAdvice);
  // What matters comes through callbacks; the log would go to stderr.
  library.SetLogLevel(WGPULogLevel_Off);
  return library;
}

}  // namespace

// Never unloaded: drivers leave threads behind. A failure is not kept, so that the advice can be followed.
Result<const Library*> LoadLibrary() {
  static Mutex mutex;
  static Library library;
  static bool loaded = false;
  MutexLock lock(mutex);
  if (!loaded) {
    LS_ASSIGN_OR_RETURN(library, Open());
    loaded = true;
  }
  return &library;
}

}  // namespace liveshape::gpu::native
