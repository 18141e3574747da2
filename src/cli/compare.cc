#include "cli/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cli/common.h"

namespace liveshape::cli {
namespace {

std::string Shape(const TensorRef& tensor) {
  return fmt::format("{}[{}]", Name(tensor.dtype), fmt::join(tensor.dims, ", "));
}

// "[1, 0, 3]" of a flat index.
std::string Place(size_t flat, const std::vector<int64_t>& dims) {
  std::vector<size_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = flat % static_cast<size_t>(dims[d]);
    flat /= static_cast<size_t>(dims[d]);
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

double Difference(double found, double wanted) {
  if (std::isnan(found) || std::isnan(wanted))
    return std::isnan(found) == std::isnan(wanted) ? 0 : std::numeric_limits<double>::infinity();
  return found == wanted ? 0 : std::fabs(found - wanted);  // equal infinities would give NaN
}

}  // namespace

Comparison CompareShapes(const TensorRef& found, const TensorRef& wanted) {
  Comparison result;
  const auto same = [](int64_t a, int64_t b) { return a == b || a == kUnknownDim; };
  result.shape_ok = result.ok =
      found.dtype == wanted.dtype && std::ranges::equal(found.dims, wanted.dims, same);
  if (!result.ok)
    result.problem = fmt::format("is {}, the golden is {}", Shape(found), Shape(wanted));
  return result;
}

Comparison Compare(const TensorRef& found, const TensorRef& wanted, double tolerance) {
  Comparison result = CompareShapes(found, wanted);
  if (!result.ok) return result;
  const size_t numel = wanted.bytes() / SizeOf(wanted.dtype);
  const bool exact = !IsFloat(wanted.dtype);
  double largest = 0;
  size_t worst = 0, differing = 0;
  for (size_t i = 0; i < numel; ++i) {
    const double a = ElementAsDouble(found.dtype, found.data, i);
    const double b = ElementAsDouble(wanted.dtype, wanted.data, i);
    if (std::isfinite(b)) largest = std::max(largest, std::fabs(b));
    double difference = Difference(a, b);
    if (exact && std::memcmp(static_cast<std::byte*>(found.data) + i * SizeOf(found.dtype),
                             static_cast<std::byte*>(wanted.data) + i * SizeOf(found.dtype),
                             SizeOf(found.dtype)) != 0) {
      difference = std::max(difference, 1.0);  // i64 beyond 2^53: the doubles may agree
    }
    if (difference > 0) ++differing;
    if (difference > result.max_abs_diff) {
      result.max_abs_diff = difference;
      worst = i;
    }
  }
  result.allowed = exact ? 0 : tolerance * std::max(1.0, largest);
  result.ok = result.max_abs_diff <= result.allowed;
  if (!result.ok) {
    result.problem = fmt::format(
        "differs at {}: {}, the golden is {} (max abs diff {:.3g}, allowed {:.3g}; {} of {} "
        "differ)",
        Place(worst, wanted.dims), ElementAsDouble(found.dtype, found.data, worst),
        ElementAsDouble(wanted.dtype, wanted.data, worst), result.max_abs_diff, result.allowed,
        differing, numel);
  }
  return result;
}

}  // namespace liveshape::cli
