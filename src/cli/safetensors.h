// Safetensors files: named tensors in one file, seen in place.
//
//   LS_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open("all.safetensors"));
//   LS_ASSIGN_OR_RETURN(const TensorRef* x, file.Find("x"));          // borrowed from the mapped file
//   LS_RETURN_IF_ERROR(WriteSafetensors("out.safetensors", {{"y", session->output(0)}}));
//
// The format: 8 bytes of header length, a JSON object of dtype, shape and data_offsets by name, then the data. As in
// .npy files, data is never copied or allocated for. Offsets must cover the data without holes or overlaps, as the
// format demands, so a file has exactly one meaning.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/status.h"
#include "liveshape/liveshape.h"

namespace liveshape::cli {

using NamedTensors = std::map<std::string, TensorRef, std::less<>>;

// Data points into `bytes`, at any alignment.
Result<NamedTensors> ParseSafetensors(std::span<const std::byte> bytes);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> Open(const std::string& path);
  const NamedTensors& tensors() const { return tensors_; }
  Result<const TensorRef*> Find(std::string_view name) const;

 private:
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  NamedTensors tensors_;
};

bool IsSafetensorsName(std::string_view path);  // by its ending

// Names must be unique. Nothing is half-written.
Status WriteSafetensors(const std::string& path,
                        std::span<const std::pair<std::string, TensorRef>> tensors);

}  // namespace liveshape::cli
