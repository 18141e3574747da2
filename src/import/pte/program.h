// What an ExecuTorch program file says of itself, read for `dump`: methods, what runs outside delegates, and where
// every delegate's blob lies. The bytes may be anything: all offsets and indices are checked against the file first.
//
//   LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open("model.pte"));
//   LS_ASSIGN_OR_RETURN(const pte::Program program, pte::ReadProgram(file->bytes()));
//   for (const pte::Method& method : program.methods)
//     for (const pte::Delegate& delegate : method.delegates)
//       if (delegate.id == pte::kLiveshapeDelegate) Load(delegate.data.bytes);        // a whole .live
//
// Names and blobs point into the bytes, which must outlive the program and begin at a multiple of 8 in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace liveshape::pte {

inline constexpr std::string_view kLiveshapeDelegate = "LiveshapeBackend";

// By the file identifier, "ET" and two digits, at byte 4.
bool IsPte(std::span<const std::byte> file);

// Follows the file identifier. Files of before it existed have none, so no segments either.
struct ExtendedHeader {
  uint32_t length = 0;
  uint64_t program_size = 0;  // of the FlatBuffer, this header included
  uint64_t segment_base = 0;
  std::optional<uint64_t> segment_bytes;  // of all segments; since headers of 32 bytes
};

struct Blob {
  uint64_t offset = 0;  // in the file
  std::span<const std::byte> bytes;
};

enum class Dynamism : uint8_t { kStatic, kBound, kUnbound };

struct Tensor {
  std::string dtype;
  std::vector<int64_t> sizes;  // kBound: the largest; kUnbound: of no meaning
  Dynamism dynamism = Dynamism::kStatic;
};

struct Value {
  std::string_view kind;  // "tensor", "int", "none", "tensor list", ...
  std::optional<Tensor> tensor;
};

struct Operator {
  std::string_view name, overload;  // "aten::add", "out"
  size_t calls = 0;
};

struct CompileSpec {
  std::string_view key;
  std::span<const std::byte> value;
};

struct Delegate {
  std::string_view id;
  size_t calls = 0;
  bool in_segment = false;
  uint32_t index = 0;  // of the segment, else of the inline blob
  Blob data;
  std::vector<CompileSpec> specs;
};

struct Chain {
  size_t kernel_calls = 0, delegate_calls = 0, moves = 0, jumps = 0, frees = 0;
  size_t unknown = 0;  // kinds newer than this reader
};

struct Method {
  std::string_view name;
  size_t values = 0, tensors = 0, constant_tensors = 0, external_tensors = 0;
  std::vector<Value> inputs, outputs;
  std::vector<int64_t> memory;  // bytes of each planned memory
  std::vector<Chain> chains;
  std::vector<Operator> operators;
  std::vector<Delegate> delegates;
};

// Tensors that lie in one segment.
struct TensorSegment {
  uint32_t segment = 0;
  size_t tensors = 0;
};

struct NamedData {
  std::string_view key;
  uint32_t segment = 0;
};

struct Program {
  uint32_t version = 0;
  std::optional<ExtendedHeader> header;
  std::vector<Method> methods;
  std::vector<Blob> segments;
  std::optional<TensorSegment> constants;
  size_t inline_constants = 0, inline_constant_bytes = 0;  // of files without a constant segment
  std::vector<TensorSegment> initial_values;               // of tensors that methods write
  std::vector<NamedData> named_data;
};

Result<Program> ReadProgram(std::span<const std::byte> file);

}  // namespace liveshape::pte
