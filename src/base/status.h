// Errors as values: no exceptions cross a module, and nothing fails silently.
//
//   Result<Graph> ReadGraph(Bytes file);            // either a graph or a reason
//
//   Status Build(Bytes file) {
//     LS_ASSIGN_OR_RETURN(Graph graph, ReadGraph(file));
//     LS_RETURN_IF_ERROR(Verify(graph));
//     if (graph.nodes().empty())
//       return InvalidArgument("graph `{}` has no nodes: nothing to run", graph.name());
//     return {};                                     // OK
//   }
//
// A message says what was asked, what was found, where, and what to do about it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace liveshape {

enum class Code : uint8_t {
  kOk = 0,
  kInvalidArgument,  // the caller's data or flags are wrong
  kOutOfRange,       // a size, index or symbol value outside its range or capacity
  kNotFound,         // a named file, input, symbol or state that does not exist
  kUnsupported,      // a well-formed request that this build or backend refuses
  kDataLoss,         // bytes that are truncated, corrupt or hostile
  kResourceExhausted,
  kFailedPrecondition,  // the object is not in a state that allows this
  kCancelled,
  kInternal,  // a bug of ours
};

const char* CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Puts `context: ` before the message, so that an error names the whole way to it.
  Status Prefixed(std::string_view context) && {
    if (!ok()) message_.insert(0, fmt::format("{}: ", context));
    return std::move(*this);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

#define LS_DEFINE_ERROR(Name, code)                                        \
  template <typename... Args>                                              \
  Status Name(fmt::format_string<Args...> format, Args&&... args) {        \
    return Status(code, fmt::format(format, std::forward<Args>(args)...)); \
  }
LS_DEFINE_ERROR(InvalidArgument, Code::kInvalidArgument)
LS_DEFINE_ERROR(OutOfRange, Code::kOutOfRange)
LS_DEFINE_ERROR(NotFound, Code::kNotFound)
LS_DEFINE_ERROR(Unsupported, Code::kUnsupported)
LS_DEFINE_ERROR(DataLoss, Code::kDataLoss)
LS_DEFINE_ERROR(ResourceExhausted, Code::kResourceExhausted)
LS_DEFINE_ERROR(FailedPrecondition, Code::kFailedPrecondition)
LS_DEFINE_ERROR(Cancelled, Code::kCancelled)
LS_DEFINE_ERROR(Internal, Code::kInternal)
#undef LS_DEFINE_ERROR

// Prints the message and aborts: for broken invariants only, never for bad input.
[[noreturn]] void Panic(const char* file, int line, const std::string& message);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : value_(std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.index() == 0; }
  Status status() const& { return ok() ? Status() : std::get<1>(value_); }
  Status status() && { return ok() ? Status() : std::move(std::get<1>(value_)); }

  T& operator*() & { return Value(); }
  const T& operator*() const& { return const_cast<Result*>(this)->Value(); }
  T&& operator*() && { return std::move(Value()); }
  T* operator->() { return &Value(); }
  const T* operator->() const { return &const_cast<Result*>(this)->Value(); }

 private:
  T& Value() {
    if (!ok()) Panic(__FILE__, __LINE__, std::get<1>(value_).message());
    return std::get<0>(value_);
  }
  std::variant<T, Status> value_;
};

}  // namespace liveshape

#define LS_CONCAT_INNER(a, b) a##b
#define LS_CONCAT(a, b) LS_CONCAT_INNER(a, b)

#define LS_RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                   \
    if (::liveshape::Status ls_status = (expression); !ls_status.ok()) return ls_status; \
  } while (false)

#define LS_ASSIGN_OR_RETURN(declaration, expression) \
  LS_ASSIGN_OR_RETURN_IMPL(LS_CONCAT(ls_result_, __LINE__), declaration, expression)
#define LS_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return std::move(result).status();            \
  declaration = *std::move(result)

// An invariant of ours; checked in every build because a wrong answer costs more than a branch.
#define LS_CHECK(condition)                                                                \
  do {                                                                                     \
    if (!(condition)) ::liveshape::Panic(__FILE__, __LINE__, "check failed: " #condition); \
  } while (false)
