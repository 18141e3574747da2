// A `.pt2` archive: the exported program, its weights in place, and its extra files.
//
//   LS_ASSIGN_OR_RETURN(Pt2Archive archive, Pt2Archive::Open(file_bytes));
//   for (const InputSpec& spec : archive.program().input_specs)
//     if (const Weight* weight = archive.FindWeight(spec))
//       Use(weight->dtype, weight->sizes, archive.storage(*weight).bytes);
//
// The caller owns the bytes (usually a mapping) and keeps them alive as long as the archive and whatever was
// taken from it: nothing is copied. Pickles (sample inputs, tensor subclasses) are never opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "import/pt2/program.h"
#include "import/pt2/zip.h"

namespace liveshape::pt2 {

// One file of the archive = one whole torch storage. Weights that share a storage alias each other.
struct Storage {
  std::string_view path;             // below the root: `data/weights/weight_0`; its identity
  std::span<const std::byte> bytes;  // in place
};

struct Weight {
  std::string name;  // fully qualified: `model.layers.0.mlp.up_proj.weight`
  ScalarType dtype = ScalarType::kUnknown;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // elements, >= 0
  int64_t storage_offset = 0;    // elements
  size_t storage = 0;            // index into Pt2Archive::storages()
  bool is_parameter = false;
  bool dropped = false;  // non-empty, but its bytes were left out on purpose (see weights_dropped)

  // Sizes and strides are those of a dense row-major tensor (strides of dims of size 1 do not matter).
  bool is_contiguous() const;
};

struct OpenOptions {
  // CRC-32 of the JSON members (weights: CheckWeightCrcs). The fuzzer turns it off to get past it.
  bool check_crc = true;
};

class Pt2Archive {
 public:
  static Result<Pt2Archive> Open(std::span<const std::byte> bytes, OpenOptions options = {});

  const Program& program() const { return program_; }

  // Parameters and persistent buffers; constants: lifted tensors and non-persistent buffers. The two are
  // separate name spaces. Every tensor lies within its storage; a check that no user need repeat.
  const std::vector<Weight>& weights() const { return weights_; }
  const std::vector<Weight>& constants() const { return constants_; }
  const std::vector<Storage>& storages() const { return storages_; }
  const Storage& storage(const Weight& weight) const { return storages_[weight.storage]; }

  // The weight or constant behind a parameter, buffer or tensor constant; null for other kinds (and for one
  // that is missing from an archive with weights_dropped()). Its dtype and sizes equal the graph's.
  const Weight* FindWeight(const InputSpec& spec) const;

  // `extra/liveshape.json` says {"weights_dropped": true}: parameters, and they alone, may have no bytes.
  bool weights_dropped() const { return weights_dropped_; }

  // Extra files by name below `extra/`, in place: "liveshape.json" -> its text.
  const std::map<std::string, std::string_view, std::less<>>& extras() const { return extras_; }

  // Reads every storage once and compares its CRC-32 with the directory's.
  Status CheckWeightCrcs() const;

 private:
  friend class ArchiveReader;

  ZipArchive zip_;
  Program program_;
  std::vector<Weight> weights_, constants_;
  std::map<std::string, size_t, std::less<>> weight_index_, constant_index_;
  std::vector<Storage> storages_;
  std::map<std::string, std::string_view, std::less<>> extras_;
  bool weights_dropped_ = false;
};

}  // namespace liveshape::pt2
