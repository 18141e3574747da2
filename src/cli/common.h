// What the subcommands share: errors to exit codes, backends by name, tensors that own their bytes, tables.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/json.h"
#include "cli/sweep.h"
#include "liveshape/liveshape.h"
#include "runtime/backend.h"

namespace liveshape::cli {

inline constexpr int kGood = 0, kCheckFailed = 1, kBadInput = 2;

// On stderr. A message that cannot be written is lost, no more: what is asked for is on stdout.
template <typename... Args>
void Say(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stderr);
}

// Says what is wrong on stderr (with --json also as {"error": ...} on stdout); returns kBadInput.
int Fail(std::string_view subcommand, const Status& status, bool json);

Result<BackendPtr> MakeBackend(const std::string& name, int threads, bool profile = false,
                               const std::string& machine = {});

// A tensor and its bytes.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(DType dtype, std::vector<int64_t> dims);
  static HostTensor CopyOf(const TensorRef& tensor);
  TensorRef ref() const;
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  std::byte* data() { return bytes_.data(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  friend bool operator==(const HostTensor&, const HostTensor&) = default;

 private:
  DType dtype_ = DType::kF32;
  std::vector<int64_t> dims_;
  std::vector<std::byte> bytes_;
};

// Element i as a double, and back (rounded to nearest even).
double ElementAsDouble(DType dtype, const void* data, size_t i);
void SetElement(DType dtype, void* data, size_t i, double value);

// An input by its name, by torch's placeholder name (dots as underscores), or by position.
Result<size_t> FindInput(const Artifact& artifact, std::string_view name);

// Symbols whose values make up a live shape, as people call them; host values and device-born ones are not.
bool IsShapeSymbol(const Artifact& artifact, size_t symbol);
const std::string& SymbolName(const SymbolDescription& symbol);
// In the order in which they enter: batch before length, as the inputs have them.
Point LiveShape(const Artifact& artifact, std::span<const int64_t> values);

// A point as values in the order of Artifact::symbols(). Every shape symbol must be given, unless its range is one
// value; `flag` is what gives one.
Result<std::vector<int64_t>> SymbolValues(const Artifact& artifact, const Point& point,
                                          std::string_view flag);

// Normal floats, uniform integers (0 to 1 unless `ranges` says more), coin-flip bools at a live shape.
Result<std::vector<HostTensor>> RandomInputs(const Artifact& artifact,
                                             std::span<const int64_t> symbol_values,
                                             const std::map<std::string, IntRange>& ranges);

std::vector<TensorRef> Refs(std::span<const HostTensor> tensors);

// Columns padded to their widest cell; the first is flush left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> titles) : rows_{std::move(titles)} {}
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

void WriteShape(JsonWriter& json, const Point& point);     // {"S":4,"B":2}
void WriteCounters(JsonWriter& json, const Stats& stats);  // members of an open object
std::string Counters(const Stats& stats);         // "allocations 0, rebuilds 0, moved addresses 0"
std::string AllocationsCell(const Stats& stats);  // "0" or "not observed"
bool CountersClean(const Stats& stats);

}  // namespace liveshape::cli
