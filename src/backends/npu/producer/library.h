// A trace producer as a shared library: compiled once, asked at any size.
//
//   LS_RETURN_IF_ERROR(CompileProducer(ProducerSource(model), "model.so"));
//   LS_ASSIGN_OR_RETURN(auto producer, Producer::Open("model.so"));
//   producer->kernel(0).walk(shape_args, n, &sink);
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "liveshape/trace.h"

namespace liveshape::npu {

// With the C++ compiler in LIVESHAPE_CXX or CXX, or c++, g++ or clang++ from the path; none of them is an error that
// says so. The file appears whole or not at all.
Status CompileProducer(const std::string& source, const std::string& path);

class Producer {
 public:
  // Refuses what is no trace producer, and one made for another version of the ABI. A non-empty digest (see
  // producer/source.h) must be the library's.
  static Result<std::unique_ptr<Producer>> Open(const std::string& path,
                                                const std::string& digest = {});
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  int32_t kernels() const { return library_->kernels; }
  const ls_trace_kernel& kernel(size_t i) const { return library_->kernel[i]; }

 private:
  Producer() = default;
  void* handle_ = nullptr;
  const ls_trace_library* library_ = nullptr;
};

}  // namespace liveshape::npu
