// The fused pointwise engine: layouts, sizes, fused chains, dtypes and torch's semantics at the edges.
// Expected values were checked against torch 2.13.
#include <bit>

#include "backends/cpu/kernel_testing.h"
#include "backends/cpu/stream.h"
#include "ops/pointwise/cpu_program.h"

namespace liveshape::cpu {

extern const CpuKernel kPointwiseKernel;

namespace {

using ir::PointwiseProgram;
using ir::PwInstr;
using ir::PwOp;
using testing::Close;
using testing::ForEachIsa;
using testing::kInf;
using testing::kNaN;
using testing::PoolOf;
using testing::RunKernel;
using testing::Tensor;

int64_t Bits(double v) { return std::bit_cast<int64_t>(v); }
ir::Attrs Attrs(PointwiseProgram program) { return {{"program", std::move(program)}}; }
PwInstr Load(int64_t input, DType t = DType::kF32) {
  return {.op = PwOp::kLoad, .dtype = t, .imm = input};
}
PwInstr Const(double v, DType t = DType::kF32) {
  return {.op = PwOp::kConst, .dtype = t, .imm = IsFloat(t) ? Bits(v) : static_cast<int64_t>(v)};
}
PwInstr Op(PwOp op, uint32_t a, uint32_t b = 0, uint32_t c = 0, DType t = DType::kF32) {
  return {.op = op, .dtype = t, .a = a, .b = b, .c = c};
}

// silu(a) * b + 0.5 over every size from 1 to 67 and around tile boundaries.
TEST(Pointwise, FusedChainAtOddSizes) {
  const PointwiseProgram program{{Load(0), Op(PwOp::kSilu, 0), Load(1), Op(PwOp::kMul, 1, 2),
                                  Const(0.5), Op(PwOp::kAdd, 3, 4)},
                                 {}};
  std::vector<int64_t> sizes = {0, 1023, 1024, 1025, 5000, 70001};
  for (int64_t n = 1; n <= 67; ++n) sizes.push_back(n);
  for (int64_t n : sizes) {
    Tensor a(DType::kF32, {n}), b(DType::kF32, {n}), out(DType::kF32, {n});
    a.Fill(1, -8, 8), b.Fill(2);
    ForEachIsa(kPointwiseKernel, Attrs(program), {&a, &b}, out, [&](const Tensor& y) {
      for (int64_t i = 0; i < n; ++i) {
        const double x = a.Get(i);
        ASSERT_TRUE(Close(y.Get(i), x / (1 + std::exp(-x)) * b.Get(i) + 0.5, 1e-6))
            << n << " at " << i;
      }
    });
  }
}

// Beyond StreamBytes() results pass by the caches: the same bits, whatever the dtype, the program and the address.
TEST(Pointwise, LargeResultsAreStreamed) {
  const int64_t rows = 515, columns = 8209;  // odd: rows begin anywhere in a line
  SetStreamBytes(size_t{24} << 20);
  struct Case {
    PointwiseProgram program;
    DType dtype;
    double (*expected)(double);
  };
  const auto bf16 = DType::kBF16, i8 = DType::kI8;
  const Case cases[] = {
      {{{Load(0), Op(PwOp::kNeg, 0)}, {}}, DType::kF32, [](double x) { return -x; }},
      {{{Load(0)}, {}}, DType::kF32, [](double x) { return x; }},
      {{{Load(0, bf16), Op(PwOp::kAbs, 0, 0, 0, bf16)}, {}},
       bf16,
       [](double x) { return std::abs(x); }},
      {{{Load(0, i8), Op(PwOp::kNeg, 0, 0, 0, i8)}, {}}, i8, [](double x) { return -x; }},
  };
  for (const Case& c : cases) {
    const int64_t batch = c.dtype == i8 ? 3 : c.dtype == bf16 ? 2 : 1;
    Tensor x(c.dtype, {batch * rows, columns}), out(c.dtype, {batch * rows, columns});
    ASSERT_GE(2 * x.numel() * SizeOf(c.dtype), StreamBytes());
    x.Fill(1, -100, 100);
    for (int threads : {1, 3}) {
      ASSERT_TRUE(RunKernel(kPointwiseKernel, Attrs(c.program), {&x}, out, PoolOf(threads)).ok());
      for (int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(out.Get(i), c.expected(x.Get(i))) << i;
    }
  }
  SetStreamBytes(0);
}

// Chains stream from their registers where rows begin with lines, by themselves and behind a function over tiles.
TEST(Pointwise, RowsInLinesAreStreamed) {
  SetStreamBytes(1);
  for (DType dtype : {DType::kF32, DType::kI64}) {
    const PointwiseProgram program{
        {Load(0, dtype), Op(PwOp::kCast, 0), Load(1), Op(PwOp::kAdd, 1, 2)}, {}};
    for (int64_t columns : {16, 48, 80, 1040, 8208}) {
      for (uint32_t broadcast : {0, 1}) {  // of a row to all: rows stay apart
        Tensor x(dtype, {77, columns}), y(DType::kF32, {77, columns}, {}, 1, broadcast);
        Tensor out(DType::kF32, {77, columns});
        out.BeginWithLine();
        x.Fill(1, -100, 100), y.Fill(2);
        for (Isa isa : AvailableIsas()) {
          ASSERT_TRUE(SetIsa(isa));
          for (int threads : {1, 3}) {
            ThreadPool& pool = PoolOf(threads);
            ASSERT_TRUE(RunKernel(kPointwiseKernel, Attrs(program), {&x, &y}, out, pool).ok());
            for (int64_t i = 0; i < x.numel(); ++i)
              ASSERT_EQ(out.Get(i), static_cast<float>(x.Get(i)) + static_cast<float>(y.Get(i)))
                  << Name(isa) << ", " << Name(dtype) << " of " << columns << " at " << i;
          }
        }
      }
    }
  }
  SetIsa(BestIsa());
  SetStreamBytes(0);
}

TEST(Pointwise, AnyStrides) {
  const PointwiseProgram program{
      {Load(0), Load(1), Load(2), Op(PwOp::kSub, 0, 1), Op(PwOp::kMul, 3, 2)}, {}};
  for (std::vector<int64_t> dims : {std::vector<int64_t>{3, 5, 7},
                                    {2, 1, 600},
                                    {4, 33, 1030},
                                    {3, 130, 37},
                                    {2, 7, 200},
                                    {0, 5, 2},
                                    {2, 3, 1}}) {
    Tensor a(DType::kF32, dims, {2, 0, 1}), b(DType::kF32, dims, {0, 1, 2}, 3),
        c(DType::kF32, dims, {}, 1, 0b101);
    a.Fill(1), b.Fill(2), c.Fill(3);
    ForEachIsa(kPointwiseKernel, Attrs(program), {&a, &b, &c}, Tensor(DType::kF32, dims),
               [&](const Tensor& y) {
                 for (int64_t i = 0; i < y.numel(); ++i) {
                   const float difference =
                       static_cast<float>(a.Get(i)) - static_cast<float>(b.Get(i));
                   ASSERT_EQ(y.Get(i), difference * static_cast<float>(c.Get(i))) << i;
                 }
               });
  }
}

// Rows that one step takes together, in tiles that end within a dim; rows longer than a tile; a value between that is
// stored. Each row's maximum has its own number, of which some are NaN.
TEST(Pointwise, SeveralRowsAtOnce) {
  const PointwiseProgram direct{
      {Load(0), Load(1), Load(2), Op(PwOp::kMax, 0, 1), Op(PwOp::kSub, 3, 2)}, {}};
  const PointwiseProgram stored{
      {Load(0), Load(1), Load(2), Op(PwOp::kMax, 0, 1), Op(PwOp::kSub, 3, 2), Op(PwOp::kMul, 3, 4)},
      {}};
  for (std::vector<int64_t> dims : {std::vector<int64_t>{3, 70, 130},
                                    {2, 41, 1000},
                                    {5, 3, 1025},
                                    {1, 300, 64},
                                    {2, 2, 20000},
                                    {1, 1, 40007}}) {
    Tensor x(DType::kF32, dims, {1, 0, 2}), row(DType::kF32, dims, {}, 1, 0b100),
        column(DType::kF32, dims, {}, 1, 0b011);
    x.Fill(1), row.Fill(2), column.Fill(3);
    const int64_t rows = dims[0] * dims[1], inner = dims[2];
    for (int64_t r = 0; r < rows; r += 3) row.Set(r * inner, kNaN);
    for (const bool between : {false, true}) {
      ForEachIsa(kPointwiseKernel, Attrs(between ? stored : direct), {&x, &row, &column},
                 Tensor(DType::kF32, dims), [&](const Tensor& y) {
                   for (int64_t i = 0; i < y.numel(); ++i) {
                     const float a = x.Get(i), b = row.Get(i), c = column.Get(i);
                     const float most = a > b || a != a ? a : b;
                     const float apart = most - c;
                     ASSERT_TRUE(Close(y.Get(i), between ? most * apart : apart, 0)) << i;
                   }
                 });
    }
  }
}

TEST(Pointwise, RankNineAndScalar) {
  const PointwiseProgram program{{Load(0), Op(PwOp::kNeg, 0)}, {}};
  Tensor x(DType::kF32, {2, 1, 3, 2, 1, 2, 3, 2, 2}, {8, 7, 6, 5, 4, 3, 2, 1, 0}),
      scalar(DType::kF32, {});
  x.Fill(4), scalar.Fill(5);
  for (Tensor* in : {&x, &scalar}) {
    ForEachIsa(kPointwiseKernel, Attrs(program), {in}, Tensor(DType::kF32, in->dims()),
               [&](const Tensor& y) {
                 for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.Get(i), -in->Get(i));
               });
  }
}

TEST(Pointwise, IotaScalarConst) {
  // row * scalar + column, in i64; then as f32.
  PointwiseProgram program{{{.op = PwOp::kIota, .dtype = DType::kI64, .imm = 0},
                            {.op = PwOp::kScalar, .dtype = DType::kI64, .imm = 0},
                            Op(PwOp::kMul, 0, 1, 0, DType::kI64),
                            {.op = PwOp::kIota, .dtype = DType::kI64, .imm = 2},
                            Op(PwOp::kAdd, 2, 3, 0, DType::kI64)},
                           {}};
  ir::Graph graph;  // owns the scalar's expression
  program.scalars.push_back(graph.table().Int(7));
  ForEachIsa(kPointwiseKernel, Attrs(program), {}, Tensor(DType::kI64, {37, 3, 41}),
             [&](const Tensor& y) {
               for (int64_t i = 0; i < y.numel(); ++i)
                 ASSERT_EQ(y.GetInt(i), i / 123 * 1000000007 + i % 41);
             },
             {1000000007});
  const PointwiseProgram ones{{Const(1.5, DType::kBF16)}, {}};
  ForEachIsa(kPointwiseKernel, Attrs(ones), {}, Tensor(DType::kBF16, {3, 700}),
             [&](const Tensor& y) {
               for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.Get(i), 1.5);
             });
}

// f16 and bf16 are rounded at each instruction, as torch's eager ops do; a factor stays f32, as there.
TEST(Pointwise, HalvesRoundAtEachStep) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    auto round = [&](double v) {
      const float f = static_cast<float>(v);
      return t == DType::kF16 ? F32FromF16(F16FromF32(f)) : F32FromBF16(BF16FromF32(f));
    };
    const PointwiseProgram program{
        {Load(0, t), Load(1, t), Op(PwOp::kMul, 0, 1, 0, t), Op(PwOp::kAdd, 2, 0, 0, t),
         Const(3.3, t), Op(PwOp::kMul, 3, 4, 0, t)},
        {}};
    Tensor a(t, {5, 211}), b(t, {5, 211}, {1, 0});
    a.Fill(1), b.Fill(2);
    ForEachIsa(kPointwiseKernel, Attrs(program), {&a, &b}, Tensor(t, {5, 211}),
               [&](const Tensor& y) {
                 for (int64_t i = 0; i < y.numel(); ++i) {
                   const float product = round(a.Get(i) * b.Get(i)),
                               sum = round(product + static_cast<float>(a.Get(i)));
                   ASSERT_EQ(y.Get(i), round(sum * 3.3f)) << i;
                 }
               });
    const PointwiseProgram widened{{Load(0, t), Op(PwOp::kCast, 0), Op(PwOp::kExp, 1)}, {}};
    ForEachIsa(kPointwiseKernel, Attrs(widened), {&a}, Tensor(DType::kF32, {5, 211}),
               [&](const Tensor& y) {
                 for (int64_t i = 0; i < y.numel(); ++i)
                   ASSERT_TRUE(Close(y.Get(i), std::exp(a.Get(i)), 1e-6));
               });
  }
}

struct Binary {
  PwOp op;
  double a, b, y;
};

void CheckBinary(const std::vector<Binary>& cases, DType t) {
  for (const Binary& c : cases) {
    const bool compares = c.op >= PwOp::kEq && c.op <= PwOp::kGe;
    const DType result = compares ? DType::kBool : t;
    const PointwiseProgram program{{Load(0, t), Load(1, t), Op(c.op, 0, 1, 0, result)}, {}};
    Tensor a(t, {19}), b(t, {19});
    for (int64_t i = 0; i < 19; ++i) {
      if (IsFloat(t))
        a.Set(i, c.a), b.Set(i, c.b);
      else
        a.SetInt(i, static_cast<int64_t>(c.a)), b.SetInt(i, static_cast<int64_t>(c.b));
    }
    ForEachIsa(kPointwiseKernel, Attrs(program), {&a, &b}, Tensor(result, {19}),
               [&](const Tensor& y) {
                 for (int64_t i = 0; i < 19; ++i)
                   ASSERT_TRUE(Close(y.Get(i), c.y, 0))
                       << ir::Name(c.op) << "(" << c.a << ", " << c.b << ") = " << y.Get(i)
                       << ", not " << c.y << " in " << Name(t);
               });
  }
}

TEST(Pointwise, FloatEdges) {
  const std::vector<Binary> cases = {
      {PwOp::kFloorDiv, 7, 2, 3},
      {PwOp::kFloorDiv, -7, 2, -4},
      {PwOp::kFloorDiv, 7, -2, -4},
      {PwOp::kFloorDiv, 5, 0, kInf},
      {PwOp::kFloorDiv, kInf, 2, kNaN},
      {PwOp::kFloorDiv, -5, kInf, -1},
      {PwOp::kRemainder, -7, 2, 1},
      {PwOp::kRemainder, 7, -2, -1},
      {PwOp::kRemainder, 5, 0, kNaN},
      {PwOp::kRemainder, -5, kInf, kInf},
      {PwOp::kFmod, -7, 2, -1},
      {PwOp::kFmod, 5, kInf, 5},
      {PwOp::kTruncDiv, -7, 2, -3},
      {PwOp::kTruncDiv, kInf, 2, kInf},
      {PwOp::kMin, kNaN, 1, kNaN},
      {PwOp::kMin, 1, kNaN, kNaN},
      {PwOp::kMax, kNaN, 1, kNaN},
      {PwOp::kMax, 1, kNaN, kNaN},
      {PwOp::kMax, -kInf, 2, 2},
      {PwOp::kMin, kInf, 2, 2},
      {PwOp::kEq, kNaN, kNaN, 0},
      {PwOp::kNe, kNaN, kNaN, 1},
      {PwOp::kLe, 1, kNaN, 0},
      {PwOp::kGt, kInf, 1, 1},
      {PwOp::kGe, 2, 2, 1},
      {PwOp::kLt, 2, 2, 0},
      {PwOp::kDiv, 1, 0, kInf},
      {PwOp::kDiv, 0, 0, kNaN},
      {PwOp::kPow, 2, 10, 1024},
  };
  for (DType t : {DType::kF32, DType::kF64, DType::kF16}) CheckBinary(cases, t);
}

TEST(Pointwise, IntegerSemantics) {
  const std::vector<Binary> cases = {
      {PwOp::kFloorDiv, 7, 2, 3},      {PwOp::kFloorDiv, -7, 2, -4},
      {PwOp::kFloorDiv, 7, -2, -4},    {PwOp::kFloorDiv, -7, -2, 3},
      {PwOp::kTruncDiv, -7, 2, -3},    {PwOp::kRemainder, -7, -3, -1},
      {PwOp::kRemainder, 7, -3, -2},   {PwOp::kRemainder, -7, 3, 2},
      {PwOp::kFmod, -7, 3, -1},        {PwOp::kPow, 3, 4, 81},
      {PwOp::kPow, -1, -3, -1},        {PwOp::kPow, 2, -1, 0},
      {PwOp::kPow, 0, 0, 1},           {PwOp::kShiftLeft, 5, 2, 20},
      {PwOp::kShiftLeft, 5, 64, 0},    {PwOp::kShiftLeft, 3, -1, 0},
      {PwOp::kShiftRight, -5, 64, -1}, {PwOp::kShiftRight, -5, 1, -3},
      {PwOp::kAnd, 6, 3, 2},           {PwOp::kOr, 6, 3, 7},
      {PwOp::kXor, 6, 3, 5},           {PwOp::kMin, -2, 3, -2},
      {PwOp::kMax, -2, 3, 3},          {PwOp::kLt, -2, 3, 1},
      {PwOp::kSub, 3, 5, -2},          {PwOp::kMul, -3, 5, -15},
  };
  for (DType t : {DType::kI64, DType::kI32, DType::kI16, DType::kI8}) CheckBinary(cases, t);
  CheckBinary({{PwOp::kSub, 3, 5, 254}, {PwOp::kFloorDiv, 200, 3, 66}, {PwOp::kAdd, 250, 10, 4}},
              DType::kU8);
  CheckBinary({{PwOp::kAdd, 1, 1, 1},
               {PwOp::kMul, 1, 0, 0},
               {PwOp::kXor, 1, 1, 0},
               {PwOp::kLt, 0, 1, 1},
               {PwOp::kMin, 1, 0, 0},
               {PwOp::kMax, 1, 0, 1}},
              DType::kBool);
}

TEST(Pointwise, WraparoundIsExact) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  auto run = [&](PwOp op, int64_t a, int64_t b) {
    const DType t = DType::kI64;
    Tensor x(t, {1}), y(t, {1}), out(t, {1});
    x.SetInt(0, a), y.SetInt(0, b);
    EXPECT_TRUE(RunKernel(kPointwiseKernel,
                          Attrs({{Load(0, t), Load(1, t), Op(op, 0, 1, 0, t)}, {}}), {&x, &y}, out,
                          PoolOf(1))
                    .ok());
    return out.GetInt(0);
  };
  EXPECT_EQ(run(PwOp::kTruncDiv, kLeast, -1), kLeast);
  EXPECT_EQ(run(PwOp::kFloorDiv, kLeast, -1), kLeast);
  EXPECT_EQ(run(PwOp::kRemainder, kLeast, -1), 0);
  EXPECT_EQ(run(PwOp::kFmod, kLeast, -1), 0);
  EXPECT_EQ(run(PwOp::kMul, 3037000500, 3037000500),
            static_cast<int64_t>(3037000500ull * 3037000500ull));
  EXPECT_EQ(run(PwOp::kAdd, std::numeric_limits<int64_t>::max(), 1), kLeast);
  EXPECT_EQ(run(PwOp::kPow, 3, 45), 2833654757305440083 + 0);
  EXPECT_EQ(run(PwOp::kAdd, (1ll << 53) + 1, 0), (1ll << 53) + 1);
}

TEST(Pointwise, DivisionByZeroIsAnError) {
  for (DType t : {DType::kI64, DType::kI32, DType::kI8, DType::kU8}) {
    for (PwOp op : {PwOp::kFloorDiv, PwOp::kTruncDiv, PwOp::kRemainder, PwOp::kFmod}) {
      Tensor a(t, {3000}), b(t, {3000}), out(t, {3000});
      for (int64_t i = 0; i < 3000; ++i) a.SetInt(i, 1), b.SetInt(i, i != 2900);
      for (int threads : {1, 2}) {
        Status s =
            RunKernel(kPointwiseKernel, Attrs({{Load(0, t), Load(1, t), Op(op, 0, 1, 0, t)}, {}}),
                      {&a, &b}, out, PoolOf(threads));
        EXPECT_FALSE(s.ok());
        EXPECT_EQ(s.message(), "integer division by zero");
      }
    }
  }
}

TEST(Pointwise, Casts) {
  auto run = [&](DType from, DType to, double v) {
    Tensor x(from, {9}), out(to, {9});
    for (int64_t i = 0; i < 9; ++i) x.Set(i, v);
    EXPECT_TRUE(RunKernel(kPointwiseKernel,
                          Attrs({{Load(0, from), Op(PwOp::kCast, 0, 0, 0, to)}, {}}), {&x}, out,
                          PoolOf(1))
                    .ok());
    for (int64_t i = 1; i < 9; ++i) EXPECT_TRUE(Close(out.Get(i), out.Get(0), 0));
    return out.Get(0);
  };
  EXPECT_EQ(run(DType::kF32, DType::kI64, -2.9), -2);
  EXPECT_EQ(run(DType::kF32, DType::kI64, kNaN),
            static_cast<double>(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(run(DType::kF32, DType::kI32, 3e10), -2147483648.0);
  EXPECT_EQ(run(DType::kF32, DType::kI8, 300), 44);
  EXPECT_EQ(run(DType::kF32, DType::kU8, -1), 255);
  EXPECT_EQ(run(DType::kF32, DType::kBool, kNaN), 1);
  EXPECT_EQ(run(DType::kF32, DType::kBool, 0), 0);
  EXPECT_EQ(run(DType::kF64, DType::kF16, 0.1), F32FromF16(F16FromF32(0.1f)));
  EXPECT_EQ(run(DType::kF16, DType::kBF16, 0.1),
            F32FromBF16(BF16FromF32(F32FromF16(F16FromF32(0.1f)))));
  EXPECT_EQ(run(DType::kI64, DType::kF32, 16777217), 16777216);
  EXPECT_EQ(run(DType::kBool, DType::kI32, 1), 1);
  EXPECT_EQ(run(DType::kI32, DType::kI8, 200), -56);
}

TEST(Pointwise, WhereIsAPredicate) {
  for (DType t : {DType::kF32, DType::kF16, DType::kF64, DType::kI64, DType::kI32, DType::kI16,
                  DType::kBool}) {
    const PointwiseProgram program{
        {Load(0, DType::kBool), Load(1, t), Load(2, t), Op(PwOp::kWhere, 0, 1, 2, t)}, {}};
    Tensor c(DType::kBool, {4, 67}), a(t, {4, 67}, {1, 0}), b(t, {4, 67}, {}, 1, 0b01);
    for (int64_t i = 0; i < c.numel(); ++i) c.SetInt(i, i % 3 == 0);
    a.Fill(1, 0, 9), b.Fill(2, 0, 9);
    if (IsFloat(t))
      for (int64_t i = 0; i < a.numel(); ++i)
        if (i % 3) a.Set(i, kNaN);
    ForEachIsa(kPointwiseKernel, Attrs(program), {&c, &a, &b}, Tensor(t, {4, 67}),
               [&](const Tensor& y) {
                 for (int64_t i = 0; i < y.numel(); ++i)
                   ASSERT_EQ(y.Get(i), (i % 3 == 0 ? a : b).Get(i)) << Name(t);
               });
  }
}

TEST(Pointwise, PowSpecialCases) {
  for (double e : {0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 2.5}) {
    for (DType t : {DType::kF32, DType::kF64, DType::kBF16}) {
      const PointwiseProgram program{{Load(0, t), Const(e, t), Op(PwOp::kPow, 0, 1, 0, t)}, {}};
      Tensor x(t, {33});
      x.Fill(3, 0.1, 4);
      ForEachIsa(kPointwiseKernel, Attrs(program), {&x}, Tensor(t, {33}), [&](const Tensor& y) {
        for (int64_t i = 0; i < 33; ++i)
          ASSERT_TRUE(Close(y.Get(i), std::pow(x.Get(i), e), t == DType::kBF16 ? 4e-3 : 1e-6)) << e;
      });
    }
  }
  const PointwiseProgram root{{Load(0), Const(0.5), Op(PwOp::kPow, 0, 1)}, {}};
  Tensor x(DType::kF32, {1}), out(DType::kF32, {1});
  x.Set(0, -kInf);
  ASSERT_TRUE(RunKernel(kPointwiseKernel, Attrs(root), {&x}, out, PoolOf(1)).ok());
  EXPECT_TRUE(std::isnan(out.Get(0)));  // torch: sqrt
}

// A program fused is the same, to the bit, as its instructions one by one on whole tensors: whatever stays in registers,
// is stored between, is one number for a row, or is a half.
TEST(Pointwise, FusedIsAsOneByOne) {
  const PwOp unary[] = {PwOp::kNeg,  PwOp::kAbs,        PwOp::kSign,  PwOp::kSquare, PwOp::kSqrt,
                        PwOp::kRelu, PwOp::kReciprocal, PwOp::kFloor, PwOp::kRound,  PwOp::kExp};
  const PwOp binary[] = {PwOp::kAdd, PwOp::kSub, PwOp::kMul,      PwOp::kDiv,
                         PwOp::kMin, PwOp::kMax, PwOp::kTruncDiv, PwOp::kPow};
  const PwOp test[] = {PwOp::kEq, PwOp::kNe, PwOp::kLt, PwOp::kLe, PwOp::kGt, PwOp::kGe};
  std::mt19937 random(7);
  const auto pick = [&](auto&& from) { return from[random() % std::size(from)]; };
  for (int round = 0; round < 120; ++round) {
    const DType types[] = {DType::kF32, DType::kF16, DType::kBF16};
    const DType t = types[round % 3];
    const std::vector<int64_t> shapes[] = {{3, 700}, {5, 77}, {2, 1300}, {1, 1}, {40, 9}};
    const std::vector<int64_t> dims = pick(shapes);
    std::vector<Tensor> inputs = {Tensor(t, dims), Tensor(t, dims, {}, 1, 0b10),
                                  Tensor(t, dims, {}, 1, 0b01), Tensor(t, dims, {}, 1, 0b11),
                                  Tensor(t, dims, {1, 0})};
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i].Fill(static_cast<uint32_t>(10 * round + i));
      inputs[i].Set(inputs[i].numel() / 2, round % 4 ? 0.0 : kNaN);
    }
    PointwiseProgram program;
    std::vector<uint32_t> numbers, bools;
    const auto add = [&](PwInstr instr) {
      (instr.dtype == DType::kBool ? bools : numbers)
          .push_back(static_cast<uint32_t>(program.code.size()));
      program.code.push_back(instr);
    };
    for (int64_t i = 0; i < 5; ++i) add(Load(i, t));
    add(Const(round % 5 ? 0.75 : kNaN, t));
    add({.op = PwOp::kIota, .dtype = t, .imm = round % 2});
    const int length = 1 + static_cast<int>(random() % 14);
    for (int i = 0; i < length; ++i) {
      switch (random() % 5) {
        case 0: add(Op(pick(unary), pick(numbers), 0, 0, t)); break;
        case 1: add(Op(pick(test), pick(numbers), pick(numbers), 0, DType::kBool)); break;
        case 2:
          if (!bools.empty()) add(Op(PwOp::kWhere, pick(bools), pick(numbers), pick(numbers), t));
          break;
        default: add(Op(pick(binary), numbers.back(), pick(numbers), 0, t));
      }
    }
    // Each instruction alone, of what the earlier ones gave.
    std::vector<Tensor> values;
    for (const PwInstr& instr : program.code) {
      Tensor value(instr.dtype, dims);
      PointwiseProgram one;
      std::vector<Tensor*> reads;
      PwInstr alone = instr;
      const uint32_t operands[3] = {instr.a, instr.b, instr.c};
      uint32_t* const renamed[3] = {&alone.a, &alone.b, &alone.c};
      for (int k = 0; k < ir::OperandCount(instr.op); ++k) {
        // Halves are multiplied and divided by numbers that stay f32, so a number stays one.
        const PwInstr& maker = program.code[operands[k]];
        *renamed[k] = static_cast<uint32_t>(one.code.size());
        if (maker.op == PwOp::kConst) {
          one.code.push_back(maker);
          continue;
        }
        one.code.push_back(Load(static_cast<int64_t>(reads.size()), maker.dtype));
        reads.push_back(&values[operands[k]]);
      }
      if (instr.op == PwOp::kLoad) {
        alone.imm = 0;
        reads.push_back(&inputs[instr.imm]);
      }
      one.code.push_back(alone);
      ASSERT_TRUE(RunKernel(kPointwiseKernel, Attrs(one), reads, value, PoolOf(1)).ok());
      values.push_back(std::move(value));
    }
    std::vector<Tensor*> all;
    for (Tensor& input : inputs) all.push_back(&input);
    const DType result = program.code.back().dtype;
    Tensor fused(result, dims);
    ASSERT_TRUE(RunKernel(kPointwiseKernel, Attrs(program), all, fused, PoolOf(2)).ok());
    for (int64_t i = 0; i < fused.numel(); ++i)
      ASSERT_TRUE(Close(fused.Get(i), values.back().Get(i), 0)) << "round " << round << " at " << i;
  }
}

TEST(Pointwise, RegistersAreReused) {
  PointwiseProgram chain{{Load(0)}, {}};
  for (uint32_t i = 0; i < 40; ++i) chain.code.push_back(Op(PwOp::kAbs, i));
  auto compiled = pw::CompileProgram(chain);
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(compiled->registers, 1);
  // A value computed and never read is not computed.
  PointwiseProgram dead{{Load(0), Op(PwOp::kExp, 0), Op(PwOp::kNeg, 0)}, {}};
  EXPECT_EQ(pw::CompileProgram(dead)->steps.size(), 2u);
  // A file may hold any number where an op has no operand.
  PointwiseProgram wild{{Load(0), Op(PwOp::kNeg, 0, 0xff000000, 0xff000000)}, {}};
  EXPECT_TRUE(pw::CompileProgram(wild).ok());
  EXPECT_FALSE(
      pw::CompileProgram({{Load(0, DType::kI64), Op(PwOp::kExp, 0, 0, 0, DType::kI64)}, {}}).ok());
}

}  // namespace
}  // namespace liveshape::cpu
