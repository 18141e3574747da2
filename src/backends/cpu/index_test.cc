// The ops that move data, through their kernels as a session calls them: strides, duplicates, in place,
// and nothing written where an index is out of range.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backends/cpu/gemm/element.h"
#include "backends/cpu/kernel.h"
#include "ops/linear/panel.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

using Dims = std::vector<int64_t>;

int64_t Numel(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// A tensor of T whose element i (row-major) is `values[i]`, laid out with dims in `order` (outermost first).
template <typename T>
struct Tensor {
  Dims dims, strides;
  std::vector<T> data;
  DType dtype;

  Tensor(DType dtype, Dims sizes, std::vector<int> order = {})
      : dims(std::move(sizes)), dtype(dtype) {
    if (order.empty())
      for (size_t i = 0; i < dims.size(); ++i) order.push_back(static_cast<int>(i));
    strides.resize(dims.size());
    int64_t numel = 1;
    for (size_t i = dims.size(); i-- > 0;) strides[order[i]] = numel, numel *= dims[order[i]];
    data.resize(numel + 1);
  }
  int64_t Offset(int64_t flat) const {
    int64_t offset = 0;
    for (size_t i = dims.size(); i-- > 0;) offset += flat % dims[i] * strides[i], flat /= dims[i];
    return offset;
  }
  T& operator[](int64_t flat) { return data[Offset(flat)]; }
  int64_t numel() const { return Numel(dims); }
  Tensor& Iota(int start = 0) {
    for (int64_t i = 0; i < numel(); ++i) (*this)[i] = static_cast<T>(start + i);
    return *this;
  }
  View view() {
    return {.data = reinterpret_cast<std::byte*>(data.data()),
            .dtype = dtype,
            .rank = static_cast<int>(dims.size()),
            .dims = dims.data(),
            .strides = strides.data()};
  }
};

using F = Tensor<float>;
using I = Tensor<int64_t>;

const CpuKernel& KernelOf(const ir::OpDef& op) {
  for (const CpuKernel* kernel : AllKernels())
    if (kernel->op == &op) return *kernel;
  abort();
}

// Prepares `op` on a graph whose inputs have these ranks and attributes, and runs it on views.
Status RunKernel(const ir::OpDef& op, std::vector<View> inputs, View output, ir::Attrs attrs,
                 bool in_place = false, std::vector<int64_t> params = {}, int threads = 2) {
  ir::Graph graph;
  ir::Node node;
  node.op = &op;
  node.attrs = std::move(attrs);
  for (const View& input : inputs) {
    ir::TensorType type{input.dtype, {}};
    for (int d = 0; d < input.rank; ++d) type.dims.push_back(graph.table().Int(input.dims[d]));
    node.inputs.push_back(graph.AddInput("x", std::move(type)));
  }
  const CpuKernel& kernel = KernelOf(op);
  std::unique_ptr<Prepared> prepared;
  if (kernel.prepare != nullptr) {
    LS_ASSIGN_OR_RETURN(prepared, kernel.prepare(graph, node));
  }
  ThreadPool pool(threads);
  const KernelArgs args{.inputs = inputs,
                        .outputs = {&output, 1},
                        .params = params,
                        .scratch = nullptr,
                        .pool = pool,
                        .prepared = prepared.get(),
                        .in_place = in_place};
  return kernel.run(args);
}

TEST(Embedding, PlainStridedAndPanels) {
  for (int64_t cols : {1, 5, 40}) {
    const int64_t rows = 37;
    F plain(DType::kF32, {rows, cols}), transposed(DType::kF32, {rows, cols}, {1, 0});
    plain.Iota(), transposed.Iota();
    F panels(DType::kF32, {ops::Panel16Bytes(rows, cols, DType::kF32) / 4});
    ops::PackPanel16({.data = plain.view().data, .rows = rows, .cols = cols, .row_stride = cols},
                     panels.view().data);
    View packed = plain.view();
    packed.data = panels.view().data;
    packed.layout = ir::ConstantLayout::kPanel16;
    I ids(DType::kI64, {3, 2}, {1, 0});
    Tensor<int32_t> ids32(DType::kI32, {3, 2});
    const int64_t wanted[] = {0, 36, 5, 17, 17, 16};
    for (int i = 0; i < 6; ++i) ids[i] = wanted[i], ids32[i] = static_cast<int32_t>(wanted[i]);
    for (const View& weight : {plain.view(), transposed.view(), packed}) {
      for (const View& id : {ids.view(), ids32.view()}) {
        F out(DType::kF32, {3, 2, cols});
        ASSERT_TRUE(RunKernel(ops::kEmbedding, {weight, id}, out.view(), {}).ok());
        for (int i = 0; i < 6; ++i) {
          for (int64_t c = 0; c < cols; ++c) EXPECT_EQ(out[i * cols + c], wanted[i] * cols + c);
        }
      }
    }
  }
}

TEST(Embedding, OutOfRangeWritesNothing) {
  F weight(DType::kF32, {4, 2});
  I ids(DType::kI64, {3});
  for (int64_t bad : {int64_t{4}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    ids[0] = 1, ids[1] = 2, ids[2] = bad;
    F out(DType::kF32, {3, 2});
    out.Iota(7);
    const Status status = RunKernel(ops::kEmbedding, {weight.view(), ids.view()}, out.view(), {});
    EXPECT_EQ(status.code(), Code::kOutOfRange);
    EXPECT_NE(status.message().find(std::to_string(bad)), std::string::npos) << status.message();
    for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], 7 + i);
  }
}

TEST(Index, OneAxisAnyPlace) {
  for (std::vector<int> order : {std::vector<int>{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}) {
    F x(DType::kF32, {3, 4, 5}, order);
    x.Iota();
    for (int64_t axis = 0; axis < 3; ++axis) {
      I index(DType::kI64, {2, 2});
      index[0] = 1, index[1] = -1, index[2] = 0, index[3] = 1;
      Dims dims = x.dims;
      dims[axis] = 2;
      dims.insert(dims.begin() + axis, 2);
      F out(DType::kF32, dims);
      ASSERT_TRUE(
          RunKernel(ops::kIndex, {x.view(), index.view()}, out.view(), {{"axes", Dims{axis}}})
              .ok());
      int64_t flat = 0;
      int64_t outer = 1, inner = 1;
      for (int64_t d = 0; d < 3; ++d) (d < axis ? outer : inner) *= d == axis ? 1 : x.dims[d];
      for (int64_t o = 0; o < outer; ++o) {
        for (int i = 0; i < 4; ++i) {
          const int64_t at = index[i] < 0 ? index[i] + x.dims[axis] : index[i];
          for (int64_t n = 0; n < inner; ++n) {
            EXPECT_EQ(out[flat++], x[(o * x.dims[axis] + at) * inner + n]);
          }
        }
      }
    }
  }
}

TEST(Index, SeparatedAxesLead) {
  Tensor<uint16_t> x(DType::kBF16, {2, 3, 4});
  x.Iota();
  I i(DType::kI64, {5}), j(DType::kI64, {5});
  for (int n = 0; n < 5; ++n) i[n] = n % 2, j[n] = n % 4 - 4;
  Tensor<uint16_t> out(DType::kBF16, {5, 3});
  ASSERT_TRUE(
      RunKernel(ops::kIndex, {x.view(), i.view(), j.view()}, out.view(), {{"axes", Dims{0, 2}}})
          .ok());
  for (int n = 0; n < 5; ++n) {
    for (int m = 0; m < 3; ++m) EXPECT_EQ(out[n * 3 + m], x[(n % 2 * 3 + m) * 4 + n % 4]);
  }
}

TEST(Index, ScalarIndexAndEmptyOnes) {
  F x(DType::kF32, {3, 2});
  x.Iota();
  I scalar(DType::kI64, {});
  scalar[0] = 2;
  F row(DType::kF32, {2});
  ASSERT_TRUE(
      RunKernel(ops::kIndex, {x.view(), scalar.view()}, row.view(), {{"axes", Dims{0}}}).ok());
  EXPECT_EQ(row[0], 4);
  I none(DType::kI64, {0});
  F nothing(DType::kF32, {0, 2});
  EXPECT_TRUE(
      RunKernel(ops::kIndex, {x.view(), none.view()}, nothing.view(), {{"axes", Dims{0}}}).ok());
  I one(DType::kI64, {1});
  F empty(DType::kF32, {0, 2}), out(DType::kF32, {1, 2});
  one[0] = 0;
  EXPECT_EQ(
      RunKernel(ops::kIndex, {empty.view(), one.view()}, out.view(), {{"axes", Dims{0}}}).code(),
      Code::kOutOfRange);
}

TEST(IndexPut, CacheWriteInPlaceTouchesOnlyTheIndexed) {
  for (int threads : {1, 2, 3}) {
    F cache(DType::kF32, {2, 3, 10, 4});
    cache.Iota();
    F expected = cache;
    F values(DType::kF32, {2, 3, 3, 4},
             {0, 2, 1, 3});  // as attention has it: [B, S, G, D] transposed
    values.Iota(1000);
    I at(DType::kI64, {3});
    at[0] = 4, at[1] = -5, at[2] = 4;  // 4 twice: the last wins
    for (int64_t o = 0; o < 6; ++o) {
      for (int64_t s = 0; s < 3; ++s) {
        for (int64_t d = 0; d < 4; ++d)
          expected[(o * 10 + (s == 1 ? 5 : 4)) * 4 + d] = values[(o * 3 + s) * 4 + d];
      }
    }
    View out = cache.view();
    ASSERT_TRUE(RunKernel(ops::kIndexPut, {cache.view(), values.view(), at.view()}, out,
                          {{"axes", Dims{2}}, {"accumulate", int64_t{0}}}, /*in_place=*/true, {},
                          threads)
                    .ok());
    EXPECT_EQ(cache.data, expected.data);
  }
}

TEST(IndexPut, CopiesTheBaseWhenNotInPlace) {
  F base(DType::kF32, {3, 4}, {1, 0}), out(DType::kF32, {3, 4}), values(DType::kF32, {2, 4});
  base.Iota(), values.Iota(100);
  I at(DType::kI64, {2});
  at[0] = 2, at[1] = 0;
  ASSERT_TRUE(RunKernel(ops::kIndexPut, {base.view(), values.view(), at.view()}, out.view(),
                        {{"axes", Dims{0}}, {"accumulate", int64_t{0}}})
                  .ok());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(out[i], 104 + i);
    EXPECT_EQ(out[4 + i], 4 + i);
    EXPECT_EQ(out[8 + i], 100 + i);
    EXPECT_EQ(base[i], i);
  }
}

TEST(IndexPut, AccumulateInTheDType) {
  Tensor<Half> half(DType::kF16, {2});
  half[0] = FromFloat<Half>(1), half[1] = FromFloat<Half>(2048);
  Tensor<Half> ones(DType::kF16, {1});
  ones[0] = FromFloat<Half>(1);
  ones.dims = {4}, ones.strides = {0};  // expanded
  I at(DType::kI64, {4});
  at[0] = 0, at[1] = 1, at[2] = 0, at[3] = 1;
  const ir::Attrs attrs = {{"axes", Dims{0}}, {"accumulate", int64_t{1}}};
  ASSERT_TRUE(
      RunKernel(ops::kIndexPut, {half.view(), ones.view(), at.view()}, half.view(), attrs, true)
          .ok());
  EXPECT_EQ(ToFloat(half[0]), 3);
  EXPECT_EQ(ToFloat(half[1]), 2048);  // each sum is rounded to f16
  Tensor<uint8_t> flags(DType::kBool, {2}), more(DType::kBool, {4});
  flags[0] = 1, flags[1] = 0, more[0] = 1, more[1] = 0, more[2] = 1, more[3] = 0;
  ASSERT_TRUE(
      RunKernel(ops::kIndexPut, {flags.view(), more.view(), at.view()}, flags.view(), attrs, true)
          .ok());
  EXPECT_EQ(flags[0], 1);
  EXPECT_EQ(flags[1], 0);
}

TEST(IndexPut, OutOfRangeLeavesTheStateAlone) {
  I counter(DType::kI64, {4});
  counter.Iota();
  const I before = counter;
  I values(DType::kI64, {2}), at(DType::kI64, {2});
  at[0] = 1, at[1] = 4;
  const Status status =
      RunKernel(ops::kIndexPut, {counter.view(), values.view(), at.view()}, counter.view(),
                {{"axes", Dims{0}}, {"accumulate", int64_t{1}}}, true);
  EXPECT_EQ(status.code(), Code::kOutOfRange);
  EXPECT_NE(status.message().find("is 4"), std::string::npos) << status.message();
  EXPECT_EQ(counter.data, before.data);
}

TEST(ViewWrite, StridedPlaceBoundsAndBase) {
  sym::Table table;
  const auto exprs = [&](size_t n) { return std::vector<sym::Expr>(n, table.Int(0)); };
  const ir::Attrs attrs = {{"sizes", exprs(2)}, {"strides", exprs(2)}, {"offset", exprs(1)}};
  F base(DType::kF32, {4, 6}), source(DType::kF32, {2, 3}, {1, 0}), out(DType::kF32, {4, 6});
  base.Iota(), source.Iota(100);
  // base[1::2, 1::2]
  ASSERT_TRUE(RunKernel(ops::kViewWrite, {base.view(), source.view()}, out.view(), attrs, false,
                        {2, 3, 12, 2, 7})
                  .ok());
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 6; ++c) {
      EXPECT_EQ(out[r * 6 + c], r % 2 && c % 2 ? 100 + r / 2 * 3 + c / 2 : r * 6 + c);
    }
  }
  const auto before = base.data;
  EXPECT_EQ(RunKernel(ops::kViewWrite, {base.view(), source.view()}, base.view(), attrs, true,
                      {2, 3, 12, 2, 8})
                .code(),
            Code::kOutOfRange);
  EXPECT_EQ(RunKernel(ops::kViewWrite, {base.view(), source.view()}, base.view(), attrs, true,
                      {2, 3, 12, 2, -1})
                .code(),
            Code::kOutOfRange);
  EXPECT_EQ(base.data, before);
  F none(DType::kF32, {0, 3});
  EXPECT_TRUE(RunKernel(ops::kViewWrite, {base.view(), none.view()}, base.view(), attrs, true,
                        {0, 3, 12, 2, 99})
                  .ok());
  EXPECT_EQ(base.data, before);
}

TEST(Cat, AnyStridesAndEmptyInputs) {
  for (int64_t dim = 0; dim < 3; ++dim) {
    std::vector<Tensor<uint8_t>> parts;
    Dims dims = {2, 3, 4};
    int64_t total = 0;
    for (int64_t extent : {2, 0, 1, 3}) {
      dims[dim] = extent;
      parts.emplace_back(DType::kI8, dims,
                         parts.size() % 2 ? std::vector<int>{} : std::vector<int>{2, 0, 1});
      parts.back().Iota(static_cast<int>(total * 40));
      total += extent;
    }
    dims[dim] = total;
    Tensor<uint8_t> out(DType::kI8, dims);
    std::vector<View> inputs;
    for (auto& part : parts) inputs.push_back(part.view());
    ASSERT_TRUE(RunKernel(ops::kCat, inputs, out.view(), {{"dim", dim}}).ok());
    int64_t outer = 1, inner = 1, flat = 0;
    for (int64_t d = 0; d < 3; ++d)
      if (d != dim) (d < dim ? outer : inner) *= dims[d];
    for (int64_t o = 0; o < outer; ++o) {
      for (auto& part : parts) {
        for (int64_t i = 0; i < part.dims[dim] * inner; ++i)
          EXPECT_EQ(out[flat++], part[o * part.dims[dim] * inner + i]);
      }
    }
  }
}

}  // namespace
}  // namespace liveshape::cpu
