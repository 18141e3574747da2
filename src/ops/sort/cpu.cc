// Each row becomes records of (order key, index), all different, so that any sorting algorithm gives the
// one stable order. Keys are unsigned integers that compare as the elements do. Elements of up to 32 bits
// make records of one 64-bit word, as long as indices fit the other half.
#include <algorithm>
#include <bit>
#include <limits>

#include "backends/cpu/lines.h"
#include "base/half.h"
#include "base/observe.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

struct SortPrepared : Prepared {
  int dim = 0;
  bool descending = false;
};

// Keys ascend as values do; every NaN is the greatest, and -0 is 0.
template <typename T>
auto KeyOfFloat(T v) {
  using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr Key kSign = Key{1} << (sizeof(Key) * 8 - 1);
  if (v != v) return std::numeric_limits<Key>::max();
  const Key bits = std::bit_cast<Key>(v == 0 ? T{0} : v);
  return bits & kSign ? ~bits : bits | kSign;
}
uint32_t KeyOfF16(uint16_t v) { return KeyOfFloat(F32FromF16(v)); }
uint32_t KeyOfBF16(uint16_t v) { return KeyOfFloat(F32FromBF16(v)); }
uint32_t KeyOfBool(uint8_t v) { return v != 0; }
template <typename T>
auto KeyOfInt(T v) {
  using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr Key kSign = Key{1} << (sizeof(Key) * 8 - 1);
  return static_cast<Key>(v) ^ (std::is_signed_v<T> ? kSign : 0);
}

struct PackedRecord {
  uint64_t word;
  PackedRecord(uint32_t key, int64_t index) : word(uint64_t{key} << 32 | uint64_t(index)) {}
  int64_t index() const { return static_cast<uint32_t>(word); }
  friend bool operator<(PackedRecord a, PackedRecord b) { return a.word < b.word; }
};
struct WideRecord {
  uint64_t key;
  int64_t at;
  WideRecord(uint64_t k, int64_t i) : key(k), at(i) {}
  int64_t index() const { return at; }
  friend bool operator<(const WideRecord& a, const WideRecord& b) {
    return a.key != b.key ? a.key < b.key : a.at < b.at;
  }
};

struct Row {
  const std::byte* x;
  int64_t x_stride, n;
  bool descending;
  std::byte* values;
  int64_t* indices;
  int64_t out_stride, count;
};

template <typename Record, typename T, typename Key>
void SortRow(const Row& row, Key key_of, std::byte* scratch) {
  const T* x = reinterpret_cast<const T*>(row.x);
  Record* records = reinterpret_cast<Record*>(scratch);
  for (int64_t i = 0; i < row.n; ++i) {
    const auto key = key_of(x[i * row.x_stride]);
    std::construct_at(records + i, row.descending ? ~key : key, i);
  }
  if (row.count < row.n) std::nth_element(records, records + row.count, records + row.n);
  std::sort(records, records + row.count);
  T* values = reinterpret_cast<T*>(row.values);
  for (int64_t i = 0; i < row.count; ++i) {
    values[i * row.out_stride] = x[records[i].index() * row.x_stride];
    row.indices[i * row.out_stride] = records[i].index();
  }
}

using SortFn = void (*)(const Row& row, std::byte* scratch);

template <typename T, auto kKey>
void Sort(const Row& row, std::byte* scratch) {
  using Key = decltype(kKey(T{}));
  if constexpr (sizeof(Key) == 4) {
    if (row.n <= std::numeric_limits<uint32_t>::max())
      return SortRow<PackedRecord, T>(row, kKey, scratch);
  }
  SortRow<WideRecord, T>(row, kKey, scratch);
}

SortFn FindSort(DType dtype) {
  switch (dtype) {
    case DType::kF32: return Sort<float, KeyOfFloat<float>>;
    case DType::kF64: return Sort<double, KeyOfFloat<double>>;
    case DType::kF16: return Sort<uint16_t, KeyOfF16>;
    case DType::kBF16: return Sort<uint16_t, KeyOfBF16>;
    case DType::kI64: return Sort<int64_t, KeyOfInt<int64_t>>;
    case DType::kI32: return Sort<int32_t, KeyOfInt<int32_t>>;
    case DType::kI16: return Sort<int16_t, KeyOfInt<int16_t>>;
    case DType::kI8: return Sort<int8_t, KeyOfInt<int8_t>>;
    case DType::kU8: return Sort<uint8_t, KeyOfInt<uint8_t>>;
    case DType::kBool: return Sort<uint8_t, KeyOfBool>;
  }
  return nullptr;
}

Status Run(const KernelArgs& args) {
  const auto& prepared = static_cast<const SortPrepared&>(*args.prepared);
  const View &x = args.in(0), &values = args.out(0), &indices = args.out(1);
  const int dim = prepared.dim;
  if (values.numel() == 0) return {};
  const Lines lines(x, values, dim);
  const int64_t n = x.dims[dim], count = values.dims[dim];
  if (count < 0 || count > n) {
    AllocationPause pause;
    return InvalidArgument("takes {} of {} elements", count, n);
  }
  const int64_t size = static_cast<int64_t>(SizeOf(x.dtype));
  const SortFn sort = FindSort(x.dtype);
  const int64_t steps = 4 * std::bit_width(static_cast<uint64_t>(n));  // comparisons an element
  args.pool.ParallelFor(
      values.numel() / count, RowGrain(n * steps), [&](int64_t begin, int64_t end, int worker) {
        std::byte* scratch = args.scratch + worker * n * static_cast<int64_t>(sizeof(WideRecord));
        RowWalker<2> walk = lines.At(begin);
        for (int64_t r = begin; r < end; ++r, walk.Next())
          sort({.x = x.data + walk.offset(0) * size,
                .x_stride = x.strides[dim],
                .n = n,
                .descending = prepared.descending,
                .values = values.data + walk.offset(1) * size,
                .indices = indices.as<int64_t>() + walk.offset(1),
                .out_stride = values.strides[dim],
                .count = count},
               scratch);
      });
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  auto prepared = std::make_unique<SortPrepared>();
  prepared->dim = static_cast<int>(node.Int("dim"));
  prepared->descending = node.Int("descending") != 0;
  return std::unique_ptr<Prepared>(std::move(prepared));
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  const size_t dim = static_cast<size_t>(node.Int("dim"));
  return graph.type(node.inputs[0]).dims[dim] * (threads * int64_t{sizeof(WideRecord)});
}

}  // namespace

extern const CpuKernel kSortKernel = {
    .op = &ops::kSort, .run = Run, .prepare = Prepare, .scratch = Scratch};

}  // namespace liveshape::cpu
