// NumPy's .npy files (format 1, 2 and 3), seen in place.
//
//   LS_ASSIGN_OR_RETURN(NpyFile x, NpyFile::Open("x.npy"));
//   Use(x.tensor());                                       // borrowed from the mapped file
//   LS_RETURN_IF_ERROR(WriteNpy("y.npy", session->output(0)));
//
// There is no bfloat16 in NumPy: it travels as uint16, and the reader must be told (`uint16_is_bf16`).
// Data is never copied or allocated for, so a header cannot make us allocate what the file does not have.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/memory.h"
#include "base/status.h"
#include "liveshape/liveshape.h"

namespace liveshape::cli {

struct NpyOptions { bool uint16_is_bf16 = false; };

// The tensor's data points into `bytes`; it may have any alignment.
Result<TensorRef> ParseNpy(std::span<const std::byte> bytes, NpyOptions options = {});

class NpyFile {
 public:
  static Result<NpyFile> Open(const std::string& path, NpyOptions options = {});
  const TensorRef& tensor() const { return tensor_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  TensorRef tensor_;
};

Status WriteNpy(const std::string& path, const TensorRef& tensor);

}  // namespace liveshape::cli
