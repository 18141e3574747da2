#include "cli/npy.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace liveshape::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;  // NumPy 2's own

struct NumpyType {
  std::string_view code;
  DType dtype;
};
constexpr NumpyType kTypes[] = {
    {"f4", DType::kF32}, {"f2", DType::kF16}, {"f8", DType::kF64},
    {"i8", DType::kI64}, {"i4", DType::kI32}, {"i2", DType::kI16},
    {"i1", DType::kI8},  {"u1", DType::kU8},  {"b1", DType::kBool},
};

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> Parse() {
    Header header;
    bool have_descr = false, have_order = false, have_shape = false;
    LS_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      LS_ASSIGN_OR_RETURN(std::string key, String());
      LS_RETURN_IF_ERROR(Expect(':'));
      bool* seen = key == "descr"           ? &have_descr
                   : key == "fortran_order" ? &have_order
                   : key == "shape"         ? &have_shape
                                            : nullptr;
      if (seen == nullptr) return Bad("unknown key");
      if (std::exchange(*seen, true)) return Bad("a key is given twice");
      if (seen == &have_descr) {
        if (Peek() == '[')
          return Unsupported("structured arrays are not supported: save one plain array a file");
        LS_ASSIGN_OR_RETURN(header.descr, String());
      } else if (seen == &have_order) {
        LS_ASSIGN_OR_RETURN(header.fortran_order, Bool());
      } else {
        LS_ASSIGN_OR_RETURN(header.shape, Shape());
      }
      if (!Take(',') && Peek() != '}') return Bad("`,` or `}` expected");
    }
    Skip();
    if (at_ != text_.size()) return Bad("text after the closing brace");
    if (!have_descr || !have_order || !have_shape)
      return Bad("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  Status Bad(const char* what) const {
    return DataLoss("bad .npy header at character {}: {}", at_, what);
  }
  void Skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  char Peek() {
    Skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  Status Expect(char c) {
    if (Take(c)) return {};
    const char what[] = {'`', c, '`', ' ', 'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', '\0'};
    return Bad(what);
  }
  bool TakeWord(std::string_view word) {
    Skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  Result<std::string> String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return Bad("a string expected");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return Bad("unterminated string");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  Result<bool> Bool() {
    if (TakeWord("True")) return true;
    if (TakeWord("False")) return false;
    return Bad("True or False expected");
  }
  Result<int64_t> Int() {
    Skip();
    int64_t value = 0;
    const size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value))
        return Bad("a dim beyond 2^63");
    if (at_ == start) return Bad("a dim expected: an integer that is not negative");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
    return value;
  }
  Result<std::vector<int64_t>> Shape() {
    std::vector<int64_t> shape;
    LS_RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      LS_ASSIGN_OR_RETURN(int64_t dim, Int());
      if (shape.size() == kMaxRank) return Bad("more than 64 dims");
      shape.push_back(dim);
      if (!Take(',') && Peek() != ')') return Bad("`,` or `)` expected");
    }
    return shape;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Result<DType> ReadType(std::string_view descr, NpyOptions options) {
  if (descr.size() < 2) return DataLoss("bad .npy dtype `{}`", descr);
  const char order = descr[0];
  const std::string_view code = descr.substr(1);
  if (order == '>')
    return Unsupported("big-endian dtype `{}`: save with x.astype('<{}')", descr, code);
  if (order != '<' && order != '|' && order != '=') return DataLoss("bad .npy dtype `{}`", descr);
  if (code == "u2") {
    if (options.uint16_is_bf16) return DType::kBF16;
    return Unsupported(
        "dtype uint16 is read only as the bits of a bfloat16, where one is expected");
  }
  for (const NumpyType& type : kTypes)
    if (type.code == code) return type.dtype;
  return Unsupported("dtype `{}` (float16/32/64, int8/16/32/64, uint8 and bool are known)", descr);
}

uint32_t LittleEndian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
  return value;
}

// Bytes of a dense tensor; nullopt beyond size_t.
std::optional<size_t> DenseBytes(DType dtype, std::span<const int64_t> dims) {
  size_t bytes = SizeOf(dtype);
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  for (const int64_t dim : dims)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(dim), &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

Result<TensorRef> ParseNpy(std::span<const std::byte> bytes, NpyOptions options) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return DataLoss("not a .npy file: it does not begin with \\x93NUMPY");
  const int major = std::to_integer<int>(bytes[6]);
  if (major < 1 || major > 3)
    return Unsupported(".npy format version {} (1 to 3 are known)", major);
  const size_t length_bytes = major == 1 ? 2 : 4, start = 8 + length_bytes;
  if (bytes.size() < start) return DataLoss("truncated .npy: no header length");
  const size_t length = LittleEndian(bytes.subspan(8, length_bytes));
  if (length > bytes.size() - start)
    return DataLoss("truncated .npy: a header of {} bytes, {} are there", length,
                    bytes.size() - start);

  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + start, length);
  LS_ASSIGN_OR_RETURN(Header header, HeaderParser(text).Parse());
  if (header.fortran_order)
    return Unsupported("the array is in Fortran order: save np.ascontiguousarray(x) instead");

  TensorRef tensor;
  LS_ASSIGN_OR_RETURN(tensor.dtype, ReadType(header.descr, options));
  tensor.dims = std::move(header.shape);
  const std::span<const std::byte> data = bytes.subspan(start + length);
  const std::optional<size_t> wanted = DenseBytes(tensor.dtype, tensor.dims);
  if (wanted != data.size()) {
    return DataLoss(".npy of shape [{}] {} needs {} bytes of data, the file has {}",
                    fmt::join(tensor.dims, ", "), Name(tensor.dtype),
                    wanted ? fmt::format("{}", *wanted) : "2^64 or more", data.size());
  }
  if (tensor.dtype == DType::kBool &&
      std::any_of(data.begin(), data.end(), [](std::byte b) { return b > std::byte{1}; }))
    return DataLoss(".npy of bool holds a byte that is neither 0 nor 1");
  tensor.data = const_cast<std::byte*>(data.data());
  return tensor;
}

Result<NpyFile> NpyFile::Open(const std::string& path, NpyOptions options) {
  NpyFile npy;
  LS_ASSIGN_OR_RETURN(npy.file_, MappedFile::Open(path));
  auto tensor = ParseNpy(npy.file_->bytes(), options);
  if (!tensor.ok()) return std::move(tensor).status().Prefixed(path);
  npy.tensor_ = *std::move(tensor);
  return npy;
}

Status WriteNpy(const std::string& path, const TensorRef& tensor) {
  std::string descr = "<u2";  // bf16
  for (const NumpyType& type : kTypes)
    if (type.dtype == tensor.dtype)
      descr = fmt::format("{}{}", SizeOf(type.dtype) == 1 ? '|' : '<', type.code);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                  fmt::join(tensor.dims, ", "), tensor.dims.size() == 1 ? "," : "");
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';

  const std::optional<size_t> bytes = DenseBytes(tensor.dtype, tensor.dims);
  LS_CHECK(bytes.has_value());
  const std::string start = std::string(kMagic) + '\x01' + '\0' +
                            static_cast<char>(header.size() & 0xFF) +
                            static_cast<char>(header.size() >> 8) + header;
  AtomicFile file;
  LS_RETURN_IF_ERROR(file.Create(path));
  LS_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(start))));
  LS_RETURN_IF_ERROR(file.Write({static_cast<const std::byte*>(tensor.data), *bytes}));
  return file.Commit();
}

}  // namespace liveshape::cli
