#include "import/pt2/archive.h"

#include <algorithm>
#include <utility>

#include "import/pt2/json.h"
#include "import/pt2/read.h"

namespace liveshape::pt2 {
namespace {

constexpr std::string_view kWeightsFolder = "data/weights/", kConstantsFolder = "data/constants/",
                           kExtraFolder = "extra/", kModelsFolder = "models/",
                           kJsonSuffix = ".json";

// An expanded tensor (stride 0) may be larger than its storage, and whoever makes it dense allocates that. Exports
// hold small ones (masks, position tables); a hostile file could ask for exabytes.
constexpr int64_t kMaxExpandedBytes = int64_t{256} << 20;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  return text;
}

// Elements of the tensor, and elements of the storage up to its last one. nullopt: beyond int64.
struct Span { int64_t elements = 1, storage_elements = 0; };
std::optional<Span> Measure(const Weight& weight) {
  Span span;
  int64_t last = weight.storage_offset;
  for (size_t i = 0; i < weight.sizes.size(); ++i) {
    int64_t step = 0;
    if (weight.sizes[i] == 0) return Span{.elements = 0, .storage_elements = 0};
    if (__builtin_mul_overflow(span.elements, weight.sizes[i], &span.elements) ||
        __builtin_mul_overflow(weight.sizes[i] - 1, weight.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  if (__builtin_add_overflow(last, 1, &span.storage_elements)) return std::nullopt;
  return span;
}

Status CheckWithinStorage(const JsonAt& at, Weight& weight, const Storage& storage,
                          bool weights_dropped) {
  const auto too_large = [&] {
    return at.Error(Code::kDataLoss, "tensor `{}` of {}[{}] is beyond 64-bit sizes", weight.name,
                    Name(weight.dtype), fmt::join(weight.sizes, ", "));
  };
  const std::optional<Span> span = Measure(weight);
  if (!span) return too_large();
  if (span->elements == 0) return {};
  if (storage.bytes.empty()) {
    if (weights_dropped && weight.is_parameter) {
      weight.dropped = true;
      return {};
    }
    return at.Error(Code::kInvalidArgument,
                    "tensor `{}` of {}[{}] has no data: the model was exported on meta or fake "
                    "tensors; load real weights "
                    "before torch.export.save",
                    weight.name, Name(weight.dtype), fmt::join(weight.sizes, ", "));
  }
  int64_t needed = 0, dense = 0;
  const int64_t element_bytes = ElementBytes(weight.dtype),
                found = static_cast<int64_t>(storage.bytes.size());
  if (__builtin_mul_overflow(span->storage_elements, element_bytes, &needed) ||
      __builtin_mul_overflow(span->elements, element_bytes, &dense))
    return too_large();
  if (needed > found)
    return at.Error(Code::kDataLoss,
                    "tensor `{}` of {}[{}] needs {} bytes of its storage `{}`, which has {}",
                    weight.name, Name(weight.dtype), fmt::join(weight.sizes, ", "), needed,
                    storage.path, found);
  if (dense > std::max(found, kMaxExpandedBytes))
    return at.Error(
        Code::kUnsupported,
        "tensor `{}` of {}[{}] expands its storage of {} bytes to {}, above the limit of {}",
        weight.name, Name(weight.dtype), fmt::join(weight.sizes, ", "), found, dense,
        kMaxExpandedBytes);
  return {};
}

// A plain number; a weight never has a symbolic size.
Result<std::vector<int64_t>> PlainInts(const JsonAt& at, const std::vector<SymInt>& values,
                                       const char* what) {
  std::vector<int64_t> plain;
  for (const SymInt& value : values) {
    if (value.is_expr()) return at.Error(Code::kDataLoss, "a weight has a symbolic {}", what);
    if (value.value < 0)
      return at.Error(Code::kDataLoss, "a weight has the negative {} {}", what, value.value);
    plain.push_back(value.value);
  }
  return plain;
}

}  // namespace

bool Weight::is_contiguous() const {
  int64_t expected = 1;
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];  // cannot overflow: Open measured the tensor
  }
  return true;
}

// Fills a Pt2Archive member by member, in the order in which they depend on each other.
class ArchiveReader {
 public:
  ArchiveReader(OpenOptions options, Pt2Archive& archive) : options_(options), archive_(archive) {}

  Status Read(std::span<const std::byte> bytes) {
    LS_ASSIGN_OR_RETURN(archive_.zip_, ZipArchive::Open(bytes));
    LS_RETURN_IF_ERROR(CheckHeader());
    LS_RETURN_IF_ERROR(ReadExtras());
    LS_ASSIGN_OR_RETURN(const std::string_view model, FindModel());
    LS_ASSIGN_OR_RETURN(const std::string_view text,
                        Text(fmt::format("{}{}{}", kModelsFolder, model, kJsonSuffix)));
    LS_ASSIGN_OR_RETURN(archive_.program_, ParseProgram(text));
    LS_RETURN_IF_ERROR(ReadPayloads(kWeightsFolder, fmt::format("{}_weights_config.json", model),
                                    archive_.weights_, archive_.weight_index_));
    LS_RETURN_IF_ERROR(ReadPayloads(kConstantsFolder,
                                    fmt::format("{}_constants_config.json", model),
                                    archive_.constants_, archive_.constant_index_));
    return CheckBindings();
  }

 private:
  // A member that we parse: small, so its checksum is always compared.
  Result<std::string_view> Text(std::string_view path) const {
    const ZipMember* member = archive_.zip_.Find(path);
    if (!member)
      return DataLoss("`{}` is missing: not a .pt2 of torch.export.save, or cut short", path);
    if (options_.check_crc) LS_RETURN_IF_ERROR(ZipArchive::CheckCrc(*member));
    return ZipArchive::Text(*member);
  }

  Status CheckHeader() const {
    const ZipArchive& zip = archive_.zip_;
    if (const ZipMember* format = zip.Find("archive_format");
        format && Trimmed(zip.Text(*format)) != "pt2")
      return Unsupported("the archive's format is `{}`, not `pt2`",
                         Trimmed(zip.Text(*format)).substr(0, 40));
    if (const ZipMember* version = zip.Find("archive_version");
        version && Trimmed(zip.Text(*version)) != "0")
      return Unsupported("the archive's layout version is `{}`; this build reads 0 (torch 2.13)",
                         Trimmed(zip.Text(*version)).substr(0, 40));
    if (const ZipMember* order = zip.Find("byteorder");
        order && Trimmed(zip.Text(*order)) != "little")
      return Unsupported("the archive's byte order is `{}`; only `little` is read",
                         Trimmed(zip.Text(*order)).substr(0, 40));
    return {};
  }

  Status ReadExtras() {
    for (const ZipMember& member : archive_.zip_.members()) {
      std::string_view path = archive_.zip_.RelativePath(member);
      if (!path.starts_with(kExtraFolder) || path.ends_with('/')) continue;
      archive_.extras_.emplace(path.substr(kExtraFolder.size()), ZipArchive::Text(member));
    }
    if (!archive_.extras_.contains("liveshape.json")) return {};
    LS_ASSIGN_OR_RETURN(const std::string_view text, Text("extra/liveshape.json"));
    LS_ASSIGN_OR_RETURN(JsonDocument document, ParseJson(text, "extra/liveshape.json"));
    const JsonAt root("extra/liveshape.json", document.root);
    LS_ASSIGN_OR_RETURN(auto dropped, root.Find("weights_dropped"));
    if (dropped) {
      LS_ASSIGN_OR_RETURN(archive_.weights_dropped_, dropped->Bool());
    }
    return {};
  }

  // torch.export.save calls it `model`; a package may hold several programs under other names.
  Result<std::string_view> FindModel() const {
    std::vector<std::string_view> names;
    for (const ZipMember& member : archive_.zip_.members()) {
      std::string_view path = archive_.zip_.RelativePath(member);
      if (!path.starts_with(kModelsFolder) || !path.ends_with(kJsonSuffix)) continue;
      path.remove_prefix(kModelsFolder.size());
      if (path.size() <= kJsonSuffix.size()) continue;
      path.remove_suffix(kJsonSuffix.size());
      if (path == "model") return path;
      names.push_back(path);
    }
    if (names.size() == 1) return names[0];
    if (names.empty())
      return DataLoss(
          "`models/model.json` is missing: not a .pt2 of torch.export.save, or cut short");
    return Unsupported(
        "the archive holds {} programs (`{}`, `{}`, ...), none called `model`: save one alone",
        names.size(), names[0], names[1]);
  }

  Status ReadPayloads(std::string_view folder, std::string_view config_name,
                      std::vector<Weight>& weights,
                      std::map<std::string, size_t, std::less<>>& index) {
    const std::string path = fmt::format("{}{}", folder, config_name);
    // A program without weights still has the file, but nothing is lost if it does not: bindings are checked.
    if (!archive_.zip_.Find(path)) return {};
    LS_ASSIGN_OR_RETURN(const std::string_view text, Text(path));
    LS_ASSIGN_OR_RETURN(JsonDocument document, ParseJson(text, path));
    const JsonAt root(path, document.root);
    LS_ASSIGN_OR_RETURN(JsonAt config, root.Get("config"));
    LS_ASSIGN_OR_RETURN(const JsonObject* entries, config.Object());
    weights.reserve(entries->size());
    for (const auto& entry : *entries) {
      LS_ASSIGN_OR_RETURN(Weight weight, ReadPayload(config.At(entry), folder));
      index.emplace(weight.name, weights.size());
      weights.push_back(std::move(weight));
    }
    return {};
  }

  Result<Weight> ReadPayload(const JsonAt& at, std::string_view folder) {
    Weight weight;
    weight.name = at.key();
    LS_ASSIGN_OR_RETURN(const bool use_pickle, ReadMember(at, "use_pickle", ReadBool));
    if (use_pickle)
      return at.Error(Code::kUnsupported,
                      "`{}` is stored as a Python pickle (a tensor subclass or custom object), "
                      "which is never opened: "
                      "export it as plain tensors",
                      weight.name);
    LS_ASSIGN_OR_RETURN(weight.is_parameter, ReadMember(at, "is_param", ReadBool));
    LS_ASSIGN_OR_RETURN(const TensorMeta meta, ReadMember(at, "tensor_meta", ReadTensorMeta));
    if (meta.layout != Layout::kStrided || ElementBytes(meta.dtype) == 0)
      return at.Error(Code::kUnsupported,
                      "`{}` is a sparse tensor or of unknown dtype; only dense tensors are read",
                      weight.name);
    weight.dtype = meta.dtype;
    LS_ASSIGN_OR_RETURN(weight.sizes, PlainInts(at, meta.sizes, "size"));
    LS_ASSIGN_OR_RETURN(weight.strides, PlainInts(at, meta.strides, "stride"));
    LS_ASSIGN_OR_RETURN(std::vector<int64_t> offset,
                        PlainInts(at, {meta.storage_offset}, "storage offset"));
    weight.storage_offset = offset[0];
    LS_ASSIGN_OR_RETURN(const std::string path_name, ReadMember(at, "path_name", ReadString));
    LS_ASSIGN_OR_RETURN(weight.storage, FindStorage(at, fmt::format("{}{}", folder, path_name)));
    LS_RETURN_IF_ERROR(CheckWithinStorage(at, weight, archive_.storages_[weight.storage],
                                          archive_.weights_dropped_));
    return weight;
  }

  Result<size_t> FindStorage(const JsonAt& at, const std::string& path) {
    if (auto known = storage_index_.find(path); known != storage_index_.end()) return known->second;
    const ZipMember* member = archive_.zip_.Find(path);
    if (!member) return at.Error(Code::kDataLoss, "the archive has no member `{}`", path);
    archive_.storages_.push_back(
        {.path = archive_.zip_.RelativePath(*member), .bytes = member->data});
    return storage_index_.emplace(archive_.storages_.back().path, archive_.storages_.size() - 1)
        .first->second;
  }

  // Whatever the graph takes from the archive is there, with the dtype and sizes the graph was traced with.
  Status CheckBindings() const {
    for (const InputSpec& spec : archive_.program_.input_specs) {
      if (spec.target.empty() || spec.kind == InputKind::kCustomObj) continue;
      const Weight* weight = archive_.FindWeight(spec);
      if (!weight) {
        if (archive_.weights_dropped_) continue;
        return DataLoss("{} `{}` of the program is not among the archive's weights",
                        Name(spec.kind), spec.target);
      }
      const TensorMeta* meta = archive_.program_.graph.FindTensor(spec.arg.value_name());
      bool same =
          meta && meta->dtype == weight->dtype && meta->sizes.size() == weight->sizes.size();
      for (size_t i = 0; same && i < weight->sizes.size(); ++i)
        same = !meta->sizes[i].is_expr() && meta->sizes[i].value == weight->sizes[i];
      if (!same)
        return DataLoss("{} `{}`: the stored tensor is {}[{}], not what the graph's `{}` says",
                        Name(spec.kind), spec.target, Name(weight->dtype),
                        fmt::join(weight->sizes, ", "), spec.arg.value_name());
    }
    return {};
  }

  OpenOptions options_;
  Pt2Archive& archive_;
  std::unordered_map<std::string_view, size_t> storage_index_;
};

Result<Pt2Archive> Pt2Archive::Open(std::span<const std::byte> bytes, OpenOptions options) {
  Pt2Archive archive;
  LS_RETURN_IF_ERROR(ArchiveReader(options, archive).Read(bytes));
  return archive;
}

const Weight* Pt2Archive::FindWeight(const InputSpec& spec) const {
  const auto find = [&](const auto& index, const std::vector<Weight>& weights) -> const Weight* {
    auto found = index.find(spec.target);
    return found == index.end() ? nullptr : &weights[found->second];
  };
  switch (spec.kind) {
    case InputKind::kParameter:
    case InputKind::kBuffer: {
      // Non-persistent buffers are not in the state dict: torch stores them with the constants.
      const Weight* weight = spec.persistent ? find(weight_index_, weights_) : nullptr;
      return weight ? weight : find(constant_index_, constants_);
    }
    case InputKind::kTensorConstant: return find(constant_index_, constants_);
    default: return nullptr;
  }
}

Status Pt2Archive::CheckWeightCrcs() const {
  for (const Storage& storage : storages_)
    if (const ZipMember* member = zip_.Find(storage.path))
      LS_RETURN_IF_ERROR(ZipArchive::CheckCrc(*member));
  return {};
}

}  // namespace liveshape::pt2
