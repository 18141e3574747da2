#include <string_view>

#include "artifact/bytes.h"
#include "artifact/load.h"

namespace liveshape::artifact {

Result<size_t> BindExternals(ir::Graph& graph, const std::map<std::string, TensorRef>& given) {
  std::string missing;
  size_t bound = 0, copied = 0;
  std::map<std::string_view, Bytes> used;  // a name may serve several constants
  for (ir::Constant& constant : graph.constants) {
    if (constant.external.empty()) continue;
    auto it = given.find(constant.external);
    if (it == given.end()) {
      missing += (missing.empty() ? "`" : ", `") + constant.external + "`";
      continue;
    }
    const TensorRef& tensor = it->second;
    const size_t size = ir::StoredBytes(constant).value_or(0);
    const std::vector<int64_t> stored = {static_cast<int64_t>(size)};
    if (constant.packed() && (tensor.dtype != DType::kU8 || tensor.dims != stored))
      return InvalidArgument(
          "external constant `{}` is {}[{}], the artifact needs its bytes as they are stored ({}, "
          "{}): u8[{}]",
          constant.external, Name(tensor.dtype), fmt::join(tensor.dims, ", "),
          ir::Name(constant.encoding), ir::Name(constant.layout), size);
    if (!constant.packed() && (tensor.dtype != constant.dtype || tensor.dims != constant.dims))
      return InvalidArgument("external constant `{}` is {}[{}], the artifact needs {}[{}]",
                             constant.external, Name(tensor.dtype), fmt::join(tensor.dims, ", "),
                             Name(constant.dtype), fmt::join(constant.dims, ", "));
    if (!tensor.data && size > 0)
      return InvalidArgument("external constant `{}` was given without data", constant.external);
    auto [entry, added] = used.try_emplace(constant.external);
    if (added) {
      ++bound;
      entry->second.data = {static_cast<const std::byte*>(tensor.data), size};
      if (!IsAligned(tensor.data)) {
        entry->second = AlignedCopy(entry->second.data);
        copied += size;
      }
    }
    constant.data = entry->second.data;
    constant.owner = entry->second.owner;
  }
  if (!missing.empty())
    return InvalidArgument(
        "the artifact needs external constants that were not given: {} "
        "(LoadOptions::external_constants)",
        missing);
  if (bound != given.size()) {
    for (const auto& [name, tensor] : given)
      if (!used.contains(name))
        return InvalidArgument("external constant `{}` was given, the artifact names no such one",
                               name);
  }
  return copied;
}

}  // namespace liveshape::artifact
