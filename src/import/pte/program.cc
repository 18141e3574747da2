#include "import/pte/program.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "pte_generated.h"

namespace liveshape::pte {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read in place");

using flatbuffers::Offset;
using flatbuffers::Vector;

constexpr size_t kIdentifierEnd = 8;  // root offset, file identifier
constexpr uint32_t kOldHeaderLength = 24, kHeaderLength = 32;
constexpr uint64_t kMaxProgramBytes = (uint64_t{1} << 31) - 1;  // what FlatBuffers 2.0 can address
constexpr size_t kMaxRank = 64;

template <typename T>
T Number(std::span<const std::byte> bytes, size_t offset) {
  T number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

std::string DTypeName(int code) {
  // torch's ScalarType, in its order.
  static constexpr std::array<std::string_view, 30> kNames = {
      "u8",        "i8",          "i16",         "i32",   "i64",      "f16",
      "f32",       "f64",         "c32",         "c64",   "c128",     "bool",
      "qint8",     "quint8",      "qint32",      "bf16",  "quint4x2", "quint2x4",
      "bits1x8",   "bits2x4",     "bits4x2",     "bits8", "bits16",   "f8_e5m2",
      "f8_e4m3fn", "f8_e5m2fnuz", "f8_e4m3fnuz", "u16",   "u32",      "u64"};
  if (code >= 0 && code < static_cast<int>(kNames.size())) return std::string(kNames[code]);
  return fmt::format("dtype{}", code);
}

std::string_view KindName(fbs::Kind kind) {
  switch (kind) {
    case fbs::Kind::Empty: return "none";
    case fbs::Kind::Int: return "int";
    case fbs::Kind::Bool: return "bool";
    case fbs::Kind::Double: return "double";
    case fbs::Kind::Tensor: return "tensor";
    case fbs::Kind::Text: return "string";
    case fbs::Kind::IntList: return "int list";
    case fbs::Kind::DoubleList: return "double list";
    case fbs::Kind::BoolList: return "bool list";
    case fbs::Kind::TensorList: return "tensor list";
    case fbs::Kind::OptionalTensorList: return "optional tensor list";
    case fbs::Kind::NONE: break;
  }
  return "unknown";
}

Result<std::optional<ExtendedHeader>> ReadHeader(std::span<const std::byte> file) {
  constexpr size_t at = kIdentifierEnd;
  if (file.size() < at + kOldHeaderLength || std::memcmp(file.data() + at, "eh00", 4) != 0)
    return std::optional<ExtendedHeader>();
  ExtendedHeader header{.length = Number<uint32_t>(file, at + 4),
                        .program_size = Number<uint64_t>(file, at + 8),
                        .segment_base = Number<uint64_t>(file, at + 16),
                        .segment_bytes = {}};
  if (header.length < kOldHeaderLength)
    return DataLoss("extended header at {}: says it has {} bytes, fewer than {}", at, header.length,
                    kOldHeaderLength);
  if (header.program_size > file.size() || header.program_size < at + header.length)
    return DataLoss("extended header at {}: a program of {} bytes in a file of {}", at,
                    header.program_size, file.size());
  if (header.segment_base > file.size())
    return DataLoss("extended header at {}: segments begin at {} in a file of {} bytes", at,
                    header.segment_base, file.size());
  if (header.length >= kHeaderLength) {
    header.segment_bytes = Number<uint64_t>(file, at + 24);  // inside program_size, checked above
    if (*header.segment_bytes > file.size() - header.segment_base)
      return DataLoss("extended header at {}: {} bytes of segments from {} in a file of {}", at,
                      *header.segment_bytes, header.segment_base, file.size());
  }
  return std::optional(header);
}

class Reader {
 public:
  Reader(std::span<const std::byte> file, std::optional<ExtendedHeader> header)
      : file_(file),
        size_(header ? header->program_size : file.size()),
        // An honest program repeats few of its parts; a hostile one could point to one long name a million times.
        parts_left_(16 * size_ + 65536) {
    program_.header = header;
  }

  Result<Program> Read() {
    LS_ASSIGN_OR_RETURN(const fbs::Program* root, Verified());
    program_.version = root->version();
    LS_RETURN_IF_ERROR(ForEach(root->segments(), "segment", [&](auto& s) { return Read(s); }));
    LS_RETURN_IF_ERROR(ReadConstants(*root));
    LS_RETURN_IF_ERROR(ForEach(root->initial_values(), "initial values", [&](auto& s) -> Status {
      LS_ASSIGN_OR_RETURN(TensorSegment tensors, Read(s));
      program_.initial_values.push_back(tensors);
      return {};
    }));
    LS_RETURN_IF_ERROR(ForEach(root->named(), "named data", [&](auto& n) -> Status {
      LS_RETURN_IF_ERROR(CheckSegment(n.segment()));
      program_.named_data.push_back({Text(n.key()), n.segment()});
      return {};
    }));
    LS_RETURN_IF_ERROR(ForEach(root->methods(), "method",
                               [&](auto& m) { return ReadMethod(m, root->delegate_data()); }));
    if (parts_left_ == 0)
      return DataLoss("the program of {} bytes at 0 repeats its parts out of all proportion",
                      size_);
    return std::move(program_);
  }

 private:
  Result<const fbs::Program*> Verified() const {
    if (size_ > kMaxProgramBytes)
      return Unsupported("a program of {} bytes: at most {} are read", size_, kMaxProgramBytes);
    flatbuffers::Verifier::Options options;
    options.max_depth = 16;
    // The smallest table takes eight bytes: more visits mean hostile sharing.
    options.max_tables = static_cast<flatbuffers::uoffset_t>(size_ / 8 + 1);
    const auto* data = reinterpret_cast<const uint8_t*>(file_.data());
    flatbuffers::Verifier verifier(data, size_, options);
    if (!fbs::VerifyProgramBuffer(verifier))
      return DataLoss("the program, {} bytes at 0, is not a well-formed FlatBuffer", size_);
    return fbs::GetProgram(data);
  }

  // Calls read(element) for each; an error then tells which element it is about, and where in the file that lies.
  template <typename T, typename Body>
  Status ForEach(const Vector<Offset<T>>* list, const char* what, Body&& read) {
    for (uint32_t i = 0; list && i < list->size() && Spend(sizeof(T*)); ++i) {
      const T& element = *list->Get(i);
      Status status = read(element);
      if (!status.ok())
        return std::move(status).Prefixed(fmt::format("{} {} at {}", what, i, At(&element)));
    }
    return {};
  }

  bool Spend(size_t bytes) {
    parts_left_ -= std::min(parts_left_, bytes);
    return parts_left_ > 0;
  }

  uint64_t At(const void* p) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(p) - file_.data());
  }

  std::string_view Text(const flatbuffers::String* text) {
    return text && Spend(text->size()) ? text->string_view() : std::string_view();
  }

  // By memcpy: the verifier checks that elements are inside the program, not that wide ones are aligned.
  template <typename T>
  std::vector<T> Copy(const Vector<T>* list) {
    std::vector<T> copy;
    if (!list || list->size() == 0 || !Spend(list->size() * sizeof(T))) return copy;
    copy.resize(list->size());
    std::memcpy(copy.data(), list->Data(), copy.size() * sizeof(T));
    return copy;
  }

  Blob Inline(const Vector<uint8_t>* bytes) const {
    if (!bytes) return {};
    return {At(bytes->Data()), file_.subspan(At(bytes->Data()), bytes->size())};
  }

  Status CheckSegment(uint32_t index) const {
    if (index < program_.segments.size()) return {};
    return DataLoss("refers to segment {} of {}", index, program_.segments.size());
  }

  Status Read(const fbs::Segment& segment) {
    // Without a header no byte follows; an empty segment may still be named (a program without constants).
    const uint64_t base = program_.header ? program_.header->segment_base : file_.size();
    uint64_t room = file_.size() - base;
    // 0: not told.
    if (program_.header && program_.header->segment_bytes.value_or(0) > 0)
      room = *program_.header->segment_bytes;
    if (segment.offset() > room || segment.size() > room - segment.offset())
      return DataLoss("has {} bytes at {} after {}, where {} follow", segment.size(),
                      segment.offset(), base, room);
    program_.segments.push_back(
        {base + segment.offset(), file_.subspan(base + segment.offset(), segment.size())});
    return {};
  }

  Result<TensorSegment> Read(const fbs::Subsegments& tensors) {
    const std::vector<uint64_t> offsets = Copy(tensors.offsets());
    if (offsets.empty()) return TensorSegment{.segment = tensors.segment()};
    LS_RETURN_IF_ERROR(CheckSegment(tensors.segment()));
    const size_t size = program_.segments[tensors.segment()].bytes.size();
    for (size_t i = 0; i < offsets.size(); ++i)
      if (offsets[i] > size)
        return DataLoss("tensor {} begins at {} of segment {}, which has {} bytes", i, offsets[i],
                        tensors.segment(), size);
    return TensorSegment{.segment = tensors.segment(), .tensors = offsets.size() - 1};  // 0 is none
  }

  Status ReadConstants(const fbs::Program& root) {
    if (const fbs::Subsegments* constants = root.constant_segment();
        constants && constants->offsets() && constants->offsets()->size() > 0) {
      auto tensors = Read(*constants);
      if (!tensors.ok())
        return std::move(tensors).status().Prefixed(fmt::format("constants at {}", At(constants)));
      program_.constants = *tensors;
    }
    if (root.constants() && root.constants()->size() > 0)
      program_.inline_constants = root.constants()->size() - 1;  // 0 is none
    return ForEach(root.constants(), "constant", [&](auto& constant) -> Status {
      if (constant.bytes()) program_.inline_constant_bytes += constant.bytes()->size();
      return {};
    });
  }

  Status ReadMethod(const fbs::Method& from, const Vector<Offset<fbs::Bytes>>* inline_data) {
    Method method;
    method.name = Text(from.name());
    LS_RETURN_IF_ERROR(ForEach(from.values(), "value", [&](auto& value) -> Status {
      ++method.values;
      if (const fbs::Tensor* tensor = value.kind_as_Tensor()) {
        ++method.tensors;
        if (tensor->more() && tensor->more()->location() == 1)
          ++method.external_tensors;
        else if (tensor->data() > 0 && !tensor->planned())
          ++method.constant_tensors;
      }
      return {};
    }));
    LS_ASSIGN_OR_RETURN(method.inputs, ReadPorts(from, from.inputs(), "input"));
    LS_ASSIGN_OR_RETURN(method.outputs, ReadPorts(from, from.outputs(), "output"));
    method.memory = Copy(from.memory());
    LS_RETURN_IF_ERROR(ForEach(from.operators(), "operator", [&](auto& op) -> Status {
      method.operators.push_back({.name = Text(op.name()), .overload = Text(op.overload())});
      return {};
    }));
    LS_RETURN_IF_ERROR(ForEach(from.delegates(), "delegate", [&](auto& delegate) {
      return ReadDelegate(delegate, inline_data, method);
    }));
    LS_RETURN_IF_ERROR(ForEach(from.chains(), "chain", [&](auto& chain) {
      method.chains.emplace_back();
      return ForEach(chain.instructions(), "instruction",
                     [&](auto& instruction) { return Count(instruction, method); });
    }));
    program_.methods.push_back(std::move(method));
    return {};
  }

  Result<std::vector<Value>> ReadPorts(const fbs::Method& method, const Vector<int32_t>* indices,
                                       const char* what) {
    std::vector<Value> ports;
    const size_t count = method.values() ? method.values()->size() : 0;
    for (const int32_t index : Copy(indices)) {
      if (index < 0 || static_cast<size_t>(index) >= count)
        return DataLoss("{} {} is value {} of {}", what, ports.size(), index, count);
      const fbs::Value& value = *method.values()->Get(static_cast<uint32_t>(index));
      Value port{.kind = KindName(value.kind_type()), .tensor = {}};
      if (const fbs::Tensor* tensor = value.kind_as_Tensor()) {
        const size_t rank = tensor->sizes() ? tensor->sizes()->size() : 0;
        if (rank > kMaxRank)
          return DataLoss("{} {}, the tensor at {}, has {} dims", what, ports.size(), At(tensor),
                          rank);
        if (tensor->dynamism() < fbs::Dynamism::MIN || tensor->dynamism() > fbs::Dynamism::MAX)
          return DataLoss("{} {}, the tensor at {}, has dynamism {}", what, ports.size(),
                          At(tensor), static_cast<int>(tensor->dynamism()));
        const std::vector<int32_t> sizes = Copy(tensor->sizes());
        port.tensor = Tensor{.dtype = DTypeName(tensor->dtype()),
                             .sizes = {sizes.begin(), sizes.end()},
                             .dynamism = static_cast<Dynamism>(tensor->dynamism())};
      }
      ports.push_back(std::move(port));
    }
    return ports;
  }

  Status ReadDelegate(const fbs::Delegate& from, const Vector<Offset<fbs::Bytes>>* inline_data,
                      Method& method) {
    Delegate delegate;
    delegate.id = Text(from.id());
    if (const fbs::DelegateData* data = from.data()) {
      delegate.in_segment = data->place() == fbs::Place::Segment;
      delegate.index = data->index();
      const uint32_t blobs = inline_data ? inline_data->size() : 0;
      if (delegate.in_segment) {
        LS_RETURN_IF_ERROR(CheckSegment(delegate.index));
        delegate.data = program_.segments[delegate.index];
      } else if (delegate.index < blobs) {
        delegate.data = Inline(inline_data->Get(delegate.index)->bytes());
      } else {
        return DataLoss("refers to blob {} of {}", delegate.index, blobs);
      }
    }
    LS_RETURN_IF_ERROR(ForEach(from.specs(), "compile spec", [&](auto& spec) -> Status {
      const Blob value = Inline(spec.value());
      if (Spend(value.bytes.size())) delegate.specs.push_back({Text(spec.key()), value.bytes});
      return {};
    }));
    method.delegates.push_back(std::move(delegate));
    return {};
  }

  static Status Count(const fbs::Instruction& instruction, Method& method) {
    const auto called = [](auto& list, int32_t index, const char* what) -> Status {
      if (index < 0 || static_cast<size_t>(index) >= list.size())
        return DataLoss("calls {} {} of {}", what, index, list.size());
      ++list[static_cast<size_t>(index)].calls;
      return {};
    };
    Chain& chain = method.chains.back();
    switch (instruction.call_type()) {
      case fbs::Call::KernelCall:
        ++chain.kernel_calls;
        if (!instruction.call_as_KernelCall()) return DataLoss("is a call of nothing");
        return called(method.operators, instruction.call_as_KernelCall()->op(), "operator");
      case fbs::Call::DelegateCall:
        ++chain.delegate_calls;
        if (!instruction.call_as_DelegateCall()) return DataLoss("is a call of nothing");
        return called(method.delegates, instruction.call_as_DelegateCall()->delegate(), "delegate");
      case fbs::Call::Move: ++chain.moves; break;
      case fbs::Call::JumpFalse: ++chain.jumps; break;
      case fbs::Call::Free: ++chain.frees; break;
      default: ++chain.unknown;
    }
    return {};
  }

  const std::span<const std::byte> file_;
  const size_t size_;  // of the FlatBuffer at the front
  size_t parts_left_;
  Program program_;
};

}  // namespace

bool IsPte(std::span<const std::byte> file) {
  const auto digit = [&](size_t i) {
    return file[i] >= std::byte{'0'} && file[i] <= std::byte{'9'};
  };
  return file.size() >= kIdentifierEnd && std::memcmp(file.data() + 4, "ET", 2) == 0 && digit(6) &&
         digit(7);
}

Result<Program> ReadProgram(std::span<const std::byte> file) {
  if (!IsPte(file)) return InvalidArgument("not an ExecuTorch program: no ET12 at 4");
  if (std::memcmp(file.data() + 4, fbs::ProgramIdentifier(), 4) != 0)
    return Unsupported("an ExecuTorch program of format {}: {} is read",
                       std::string_view(reinterpret_cast<const char*>(file.data()) + 4, 4),
                       fbs::ProgramIdentifier());
  LS_ASSIGN_OR_RETURN(const auto header, ReadHeader(file));
  return Reader(file, header).Read();
}

}  // namespace liveshape::pte
