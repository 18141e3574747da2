// Writes source to a strided place of the row-major base.
#include "backends/cpu/strided_copy.h"
#include "ops/index/cpu_elements.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

// Where sizes, strides and offset lie among the node's params.
struct Places : Prepared { size_t sizes = 0, strides = 0, offset = 0; };

Status Run(const KernelArgs& args) {
  const View &base = args.in(0), &source = args.in(1), &y = args.out(0);
  const auto& places = static_cast<const Places&>(*args.prepared);
  const int64_t* sizes = &args.params[places.sizes];
  const int64_t* strides = &args.params[places.strides];
  const int64_t offset = args.params[places.offset];
  int64_t lowest = offset, highest = offset;
  bool empty = false;
  for (int d = 0; d < source.rank; ++d) {
    empty |= sizes[d] == 0;
    (strides[d] < 0 ? lowest : highest) += (sizes[d] - 1) * strides[d];
  }
  const int64_t numel = y.numel();
  if (!empty && (lowest < 0 || highest >= numel)) {
    return OutOfRange("a write to elements {} to {} of a tensor of {} elements", lowest, highest,
                      numel);
  }
  const size_t size = SizeOf(y.dtype);
  if (!args.in_place) StridedCopy(base, y.data, args.pool);
  if (empty) return {};
  CopyBox({source.rank, sizes, source.strides, strides}, size, source.data,
          y.data + offset * static_cast<int64_t>(size));
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  auto places = std::make_unique<Places>();
  size_t at = 0;
  for (const auto& [name, attr] : node.attrs) {
    const auto* exprs = std::get_if<std::vector<sym::Expr>>(&attr);
    if (exprs == nullptr) continue;
    if (name == "sizes") places->sizes = at;
    if (name == "strides") places->strides = at;
    if (name == "offset") places->offset = at;
    at += exprs->size();
  }
  return std::unique_ptr<Prepared>(std::move(places));
}

}  // namespace

extern const CpuKernel kViewWriteKernel = {.op = &ops::kViewWrite, .run = Run, .prepare = Prepare};

}  // namespace liveshape::cpu
