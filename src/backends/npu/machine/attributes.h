// How sizes and addresses reach the simulator: one attribute file a kernel and live shape.
//
//   const std::pair<std::string, int64_t> tensors[] = {{"x", 4000}, {"y", 4000}, {"out", 4000}};
//   KernelAttributes add = {"add", /*shape_args=*/{1000}, *AssignAddresses(tensors, /*base=*/0)};
//   ToYaml(add);
//   //  kernel: add
//   //  shape_args: [1000]
//   //  address_info:
//   //    - {tensor: x, base: 0, bytes: 4000}
//   //    - {tensor: y, base: 4096, bytes: 4000}
//   //    - {tensor: out, base: 8192, bytes: 4000}
//
// Addresses follow from the live shape in argument order, never from a plan at the bound: a program compiled dynamic
// and one compiled static put their tensors at the same places.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace liveshape::npu {

struct TensorAddress {
  std::string tensor;
  int64_t base = 0;
  int64_t bytes = 0;
  friend bool operator==(const TensorAddress&, const TensorAddress&) = default;
};

struct KernelAttributes {
  std::string kernel;
  std::vector<int64_t> shape_args;
  std::vector<TensorAddress> address_info;  // in argument order
  friend bool operator==(const KernelAttributes&, const KernelAttributes&) = default;
};

inline constexpr int64_t kTensorAlignment = 4096;  // a page: tensors never share a burst or a row

// One after another from `base`, each at a multiple of kTensorAlignment. Refused: beyond 2^62.
Result<std::vector<TensorAddress>> AssignAddresses(
    std::span<const std::pair<std::string, int64_t>> tensors, int64_t base);

std::string ToYaml(const KernelAttributes& attributes);

}  // namespace liveshape::npu
