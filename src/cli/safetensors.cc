#include "cli/safetensors.h"

#include <algorithm>
#include <optional>

#include "cli/json.h"
#include "import/pt2/json.h"
#include "ir/graph.h"

namespace liveshape::cli {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kMaxRank = 64;
constexpr std::string_view kMetadata = "__metadata__";

struct TypeRow {
  std::string_view name;
  DType dtype;
};
constexpr TypeRow kTypes[] = {
    {"F32", DType::kF32}, {"F16", DType::kF16},   {"BF16", DType::kBF16}, {"F64", DType::kF64},
    {"I64", DType::kI64}, {"I32", DType::kI32},   {"I16", DType::kI16},   {"I8", DType::kI8},
    {"U8", DType::kU8},   {"BOOL", DType::kBool},
};

std::string_view TypeName(DType dtype) {
  return std::ranges::find(kTypes, dtype, &TypeRow::dtype)->name;
}

struct Extent { size_t begin, end; };

Result<Extent> ReadExtent(const pt2::JsonAt& at, size_t data_size) {
  LS_ASSIGN_OR_RETURN(const auto offsets, pt2::ReadList(at, pt2::ReadInt));
  if (offsets.size() != 2)
    return at.Error(Code::kDataLoss, "{} numbers, not begin and end", offsets.size());
  if (offsets[0] < 0 || offsets[1] < offsets[0] || static_cast<size_t>(offsets[1]) > data_size)
    return at.Error(Code::kDataLoss, "bytes {} to {} of {}", offsets[0], offsets[1], data_size);
  return Extent{static_cast<size_t>(offsets[0]), static_cast<size_t>(offsets[1])};
}

Result<std::pair<TensorRef, Extent>> ReadTensor(const pt2::JsonAt& at,
                                                std::span<const std::byte> data) {
  LS_ASSIGN_OR_RETURN(const std::string type, pt2::ReadMember(at, "dtype", pt2::ReadString));
  const auto* row = std::ranges::find(kTypes, type, &TypeRow::name);
  if (row == std::end(kTypes))
    return at.Error(Code::kUnsupported, "dtype `{}` (F16/32/64, BF16, I8/16/32/64, U8, BOOL)",
                    type);
  TensorRef tensor{row->dtype, nullptr, {}};
  LS_ASSIGN_OR_RETURN(pt2::JsonAt shape, at.Get("shape"));
  LS_ASSIGN_OR_RETURN(tensor.dims, pt2::ReadList(shape, pt2::ReadInt));
  if (tensor.dims.size() > kMaxRank)
    return shape.Error(Code::kUnsupported, "rank {}", tensor.dims.size());
  if (std::ranges::any_of(tensor.dims, [](int64_t dim) { return dim < 0; }))
    return shape.Error(Code::kDataLoss, "a dim is negative");
  LS_ASSIGN_OR_RETURN(pt2::JsonAt offsets, at.Get("data_offsets"));
  LS_ASSIGN_OR_RETURN(const Extent extent, ReadExtent(offsets, data.size()));
  if (ir::DenseBytes(tensor.dtype, tensor.dims) != extent.end - extent.begin)
    return at.Error(Code::kDataLoss, "{}[{}] does not have the {} bytes from {} to {}", type,
                    fmt::join(tensor.dims, ", "), extent.end - extent.begin, extent.begin,
                    extent.end);
  const auto bytes = data.subspan(extent.begin, extent.end - extent.begin);
  if (tensor.dtype == DType::kBool &&
      std::ranges::any_of(bytes, [](std::byte b) { return b > std::byte{1}; }))
    return at.Error(Code::kDataLoss, "a bool that is neither 0 nor 1");
  tensor.data = const_cast<std::byte*>(bytes.data());
  return std::pair(std::move(tensor), extent);
}

Status CheckCover(std::vector<Extent> extents, size_t data_size) {
  std::ranges::sort(extents, {}, [](const Extent& e) { return std::pair(e.begin, e.end); });
  size_t at = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != at)
      return DataLoss("safetensors: data {} at byte {}: a tensor begins at {}",
                      extent.begin < at ? "overlaps" : "has a hole", at, extent.begin);
    at = extent.end;
  }
  if (at != data_size)
    return DataLoss("safetensors: tensors end at byte {} of {} bytes of data", at, data_size);
  return {};
}

}  // namespace

Result<NamedTensors> ParseSafetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) return DataLoss("safetensors: no header length");
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<uint64_t>(bytes[i]);
  if (length > kMaxHeader || length > bytes.size() - kLengthBytes)
    return DataLoss("safetensors: a header of {} bytes, {} are there and {} is the limit", length,
                    bytes.size() - kLengthBytes, kMaxHeader);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);
  LS_ASSIGN_OR_RETURN(const pt2::JsonDocument document, pt2::ParseJson(text, "safetensors"));
  const pt2::JsonAt root("safetensors", document.root);
  LS_ASSIGN_OR_RETURN(const pt2::JsonObject* entries, root.Object());
  NamedTensors tensors;
  std::vector<Extent> extents;
  for (const pt2::JsonMember& member : *entries) {
    if (member.key == kMetadata) continue;  // text for people
    const pt2::JsonAt at = root.At(member);
    LS_ASSIGN_OR_RETURN(auto tensor, ReadTensor(at, data));
    extents.push_back(tensor.second);
    tensors.emplace(member.key, std::move(tensor.first));
  }
  LS_RETURN_IF_ERROR(CheckCover(std::move(extents), data.size()));
  return tensors;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  LS_ASSIGN_OR_RETURN(file.file_, MappedFile::Open(path));
  auto tensors = ParseSafetensors(file.file_->bytes());
  if (!tensors.ok()) return std::move(tensors).status().Prefixed(path);
  file.tensors_ = *std::move(tensors);
  return file;
}

Result<const TensorRef*> SafetensorsFile::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return &found->second;
  std::vector<std::string_view> names;
  for (const auto& [known, tensor] : tensors_) names.push_back(known);
  if (names.size() > 8) names.resize(8), names.push_back("...");
  return NotFound("{}: no tensor `{}`; there are {}", path_, name, fmt::join(names, ", "));
}

bool IsSafetensorsName(std::string_view path) { return path.ends_with(".safetensors"); }

Status WriteSafetensors(const std::string& path,
                        std::span<const std::pair<std::string, TensorRef>> tensors) {
  JsonWriter json;
  size_t at = 0;
  json.Object([&] {
    for (const auto& [name, tensor] : tensors)
      json.Key(name).Object([&] {
        json.Field("dtype", TypeName(tensor.dtype));
        json.Key("shape").Array([&] {
          for (const int64_t dim : tensor.dims) json.Value(dim);
        });
        json.Key("data_offsets").Array([&] { json.Value(at).Value(at + tensor.bytes()); });
        at += tensor.bytes();
      });
  });
  std::string header = json.text();
  header.resize((header.size() + 7) / 8 * 8, ' ');  // so that data begins aligned
  std::string start;
  for (size_t i = 0; i < kLengthBytes; ++i) start += static_cast<char>(header.size() >> (8 * i));
  start += header;
  AtomicFile file;
  LS_RETURN_IF_ERROR(file.Create(path));
  LS_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(start))));
  for (const auto& [name, tensor] : tensors)
    LS_RETURN_IF_ERROR(file.Write({static_cast<const std::byte*>(tensor.data), tensor.bytes()}));
  return file.Commit();
}

}  // namespace liveshape::cli
