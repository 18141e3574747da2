#include "artifact/format.h"

#include <bit>
#include <cstring>

#include "ir/graph.h"
#include "liveshape_generated.h"

namespace liveshape::artifact {
namespace {

constexpr char kMagic[8] = {'L', 'I', 'V', 'E', 'S', 'H', 'A', 'P'};

// Byte offsets of the header's fields.
enum Field : size_t {
  kMagicAt = 0,
  kMajorAt = 8,
  kMinorAt = 10,
  kHeaderSizeAt = 12,
  kFileSizeAt = 16,
  kGraphOffsetAt = 24,
  kGraphSizeAt = 32,
  kConstantsOffsetAt = 40,
  kConstantsSizeAt = 48,
  kChecksumAt = 56,
};

// Little-endian on every machine.
template <typename T>
void Put(std::array<std::byte, kHeaderSize>& bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[at + i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
}
template <typename T>
T Take(std::span<const std::byte> bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<T>(value);
}

// One step of the checksum is a bijection of the state for a given word and of the word for a given
// state: a change inside one word is always found.
uint64_t Mix(uint64_t state, uint64_t word) {
  return std::rotl((state ^ word) * 0x9E3779B97F4A7C15u, 29);
}

uint64_t Mix(uint64_t state, std::span<const std::byte> bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state = Mix(state, Take<uint64_t>(bytes, at));
  uint64_t last = 0;
  for (size_t i = 0; at + i < bytes.size(); ++i)
    last |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  return Mix(Mix(state, last), bytes.size());
}

bool Inside(uint64_t offset, uint64_t size, uint64_t total) {
  return offset <= total && size <= total - offset;
}

// The schema repeats codes that C++ headers own; a reordering there must not compile.
template <typename A, typename B>
constexpr bool Same(A a, B b) {
  return static_cast<int>(a) == static_cast<int>(b);
}
static_assert(Same(fbs::DType::MAX, kDTypeCount - 1) && Same(fbs::DType::F16, DType::kF16) &&
              Same(fbs::DType::BF16, DType::kBF16) && Same(fbs::DType::F64, DType::kF64) &&
              Same(fbs::DType::I64, DType::kI64) && Same(fbs::DType::I32, DType::kI32) &&
              Same(fbs::DType::I16, DType::kI16) && Same(fbs::DType::I8, DType::kI8) &&
              Same(fbs::DType::U8, DType::kU8) && Same(fbs::DType::Bool, DType::kBool));
static_assert(Same(fbs::Encoding::Plain, ir::Encoding::kPlain) &&
              Same(fbs::Encoding::Q8SymG32, ir::Encoding::kQ8SymG32) &&
              Same(fbs::Encoding::Q4SymG32, ir::Encoding::kQ4SymG32) &&
              Same(fbs::Encoding::MAX, ir::Encoding::kQ4SymG32) &&
              Same(fbs::Layout::Plain, ir::ConstantLayout::kPlain) &&
              Same(fbs::Layout::Panel16, ir::ConstantLayout::kPanel16));
static_assert(Same(fbs::PwOp::MAX,
                   static_cast<int>(ir::PwOp::kCount) - 1));  // names: artifact_test

#define LS_SAME_KIND(name) static_assert(Same(fbs::ExprKind::name, sym::Kind::k##name))
LS_SAME_KIND(Int);
LS_SAME_KIND(Symbol);
LS_SAME_KIND(Add);
LS_SAME_KIND(Mul);
LS_SAME_KIND(Pow);
LS_SAME_KIND(FloorDiv);
LS_SAME_KIND(CeilDiv);
LS_SAME_KIND(Mod);
LS_SAME_KIND(Min);
LS_SAME_KIND(Max);
LS_SAME_KIND(Select);
LS_SAME_KIND(Eq);
LS_SAME_KIND(Ne);
LS_SAME_KIND(Lt);
LS_SAME_KIND(Le);
LS_SAME_KIND(And);
LS_SAME_KIND(Or);
LS_SAME_KIND(Not);
LS_SAME_KIND(BitAnd);
LS_SAME_KIND(BitOr);
LS_SAME_KIND(ShiftLeft);
LS_SAME_KIND(ShiftRight);
LS_SAME_KIND(Float);
LS_SAME_KIND(ToFloat);
LS_SAME_KIND(FloatAdd);
LS_SAME_KIND(FloatMul);
LS_SAME_KIND(FloatDiv);
LS_SAME_KIND(FloatPow);
LS_SAME_KIND(FloatSqrt);
LS_SAME_KIND(IntTrueDiv);
LS_SAME_KIND(FloatMin);
LS_SAME_KIND(FloatMax);
LS_SAME_KIND(TruncToInt);
LS_SAME_KIND(FloorToInt);
LS_SAME_KIND(CeilToInt);
LS_SAME_KIND(RoundToInt);
#undef LS_SAME_KIND

}  // namespace

std::array<std::byte, kHeaderSize> Header::Encode() const {
  std::array<std::byte, kHeaderSize> bytes{};
  std::memcpy(bytes.data() + kMagicAt, kMagic, sizeof(kMagic));
  Put(bytes, kMajorAt, major);
  Put(bytes, kMinorAt, minor);
  Put(bytes, kHeaderSizeAt, static_cast<uint32_t>(kHeaderSize));
  Put(bytes, kFileSizeAt, file_size);
  Put(bytes, kGraphOffsetAt, graph_offset);
  Put(bytes, kGraphSizeAt, graph_size);
  Put(bytes, kConstantsOffsetAt, constants_offset);
  Put(bytes, kConstantsSizeAt, constants_size);
  Put(bytes, kChecksumAt, checksum);
  return bytes;
}

Header Header::Decode(std::span<const std::byte, kHeaderSize> bytes) {
  return {.major = Take<uint16_t>(bytes, kMajorAt),
          .minor = Take<uint16_t>(bytes, kMinorAt),
          .file_size = Take<uint64_t>(bytes, kFileSizeAt),
          .graph_offset = Take<uint64_t>(bytes, kGraphOffsetAt),
          .graph_size = Take<uint64_t>(bytes, kGraphSizeAt),
          .constants_offset = Take<uint64_t>(bytes, kConstantsOffsetAt),
          .constants_size = Take<uint64_t>(bytes, kConstantsSizeAt),
          .checksum = Take<uint64_t>(bytes, kChecksumAt)};
}

uint64_t ChecksumOf(const Header& header, std::span<const std::byte> graph) {
  const auto bytes = header.Encode();
  return Mix(Mix(0, std::span(bytes).first(kChecksumAt)), graph);
}

Result<Header> ReadHeader(std::span<const std::byte> file) {
  if (file.size() < sizeof(kMagic) || std::memcmp(file.data(), kMagic, sizeof(kMagic)) != 0)
    return DataLoss(
        "not a liveshape artifact: the first 8 bytes are not `LIVESHAP` (make one with `liveshape "
        "compile`)");
  if (file.size() < kHeaderSize)
    return DataLoss("truncated: the header has {} bytes, the file {}", kHeaderSize, file.size());

  const Header header = Header::Decode(file.first<kHeaderSize>());
  if (header.major > kMajor || (header.major == kMajor && header.minor > kMinor))
    return Unsupported(
        "artifact format {}.{} is newer than {}.{}, the newest that this build reads: update "
        "liveshape, or compile the model again with this one",
        header.major, header.minor, kMajor, kMinor);
  if (header.major < 1)
    return DataLoss("artifact format {}.{} never existed", header.major, header.minor);
  if (header.file_size != file.size())
    return DataLoss("{}: the header says {} bytes, the file has {}",
                    file.size() < header.file_size ? "truncated" : "bytes after the end",
                    header.file_size, file.size());
  if (Take<uint32_t>(file, kHeaderSizeAt) != kHeaderSize || header.graph_offset < kHeaderSize ||
      header.graph_offset % kAlignment != 0 || header.graph_size > kMaxGraphBytes ||
      !Inside(header.graph_offset, header.graph_size, header.file_size))
    return DataLoss("the header puts the graph at {} + {} of {} bytes", header.graph_offset,
                    header.graph_size, header.file_size);
  if (header.constants_offset % kAlignment != 0 ||
      !Inside(header.constants_offset, header.constants_size, header.file_size))
    return DataLoss("the header puts the constants at {} + {} of {} bytes", header.constants_offset,
                    header.constants_size, header.file_size);
  const uint64_t checksum =
      ChecksumOf(header, file.subspan(header.graph_offset, header.graph_size));
  if (checksum != header.checksum)
    return DataLoss("corrupt: the checksum of header and graph is {:016x}, the file says {:016x}",
                    checksum, header.checksum);
  return header;
}

}  // namespace liveshape::artifact
