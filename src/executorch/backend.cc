// Liveshape in ExecuTorch's registry, under the name that a .pte gives: loading this library is all that is needed.
#include <executorch/runtime/backend/interface.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include "executorch/delegate.h"

namespace liveshape::et {
namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Span;

Result<int> ReadThreads(std::string_view text) {
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc() || end != text.data() + text.size())
    return InvalidArgument("compile spec threads = `{}`: not an integer", text);
  return threads;
}

// Specs that only the compiler reads (quant, bound, min) are in the artifact by now. What is given when the Method
// is loaded outranks what was given at export: the machine is known then.
Result<DelegateOptions> ReadOptions(BackendInitContext& context, ArrayRef<CompileSpec> specs) {
  DelegateOptions options;
  for (const CompileSpec& spec : specs) {
    const std::string_view key = spec.key;
    const std::string_view value(static_cast<const char*>(spec.value.buffer), spec.value.nbytes);
    if (key == "backend") options.backend = value;
    if (key == "threads") {
      LS_ASSIGN_OR_RETURN(options.threads, ReadThreads(value));
    }
  }
  if (const auto threads = context.get_runtime_spec<int>("threads"); threads.ok())
    options.threads = *threads;
  return options;
}

class LiveshapeBackend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  executorch::runtime::Result<DelegateHandle*> init(BackendInitContext& context,
                                                    FreeableBuffer* processed,
                                                    ArrayRef<CompileSpec> specs) const override {
    auto options = ReadOptions(context, specs);
    if (!options.ok()) return Report(options.status());
    bool copied = false;
    auto delegate =
        Delegate::Create({static_cast<const std::byte*>(processed->data()), processed->size()},
                         context.get_named_data_map(), *options, &copied);
    if (!delegate.ok()) {
      const Error error = Report(delegate.status());
      // A blob of a newer version, or of ops that this build lacks: the file is good, this library is not enough.
      return error == Error::NotSupported ? Error::DelegateInvalidCompatibility : error;
    }
    if (copied) processed->Free();
    return (*delegate).release();
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                Span<EValue*> args) const override {
    return static_cast<Delegate*>(handle)->Execute(args);
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Delegate*>(handle); }
};

// ExecuTorch asks for registration before a program is loaded; a library that is only dlopened has no other moment.
[[maybe_unused]] const Error registered = [] {
  static LiveshapeBackend backend;
  return executorch::runtime::register_backend({"LiveshapeBackend", &backend});
}();

}  // namespace
}  // namespace liveshape::et
