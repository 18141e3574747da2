// Steps that run together: kernels tell complete parts, the result has the same bytes, and what shares memory in a way that
// taking turns would spoil is found.
#include "backends/cpu/join.h"

#include <array>
#include <atomic>

#include "backends/cpu/kernel_testing.h"

namespace liveshape::cpu {

extern const CpuKernel kLayerNormKernel;
extern const CpuKernel kPointwiseKernel;
extern const CpuKernel kRmsNormKernel;
extern const CpuKernel kRopeKernel;

namespace {

using ir::PwOp;
using testing::PoolOf;
using testing::RunKernel;
using testing::Tensor;
using testing::WithArgs;

const std::vector<std::vector<int64_t>> kShapes = {{1, 1},     {7, 33},    {64, 8192}, {3, 40000},
                                                   {5000, 16}, {40001, 3}, {0, 5}};

// silu(x * weight + bias), the last two one a row.
ir::Attrs ScaleShiftSilu() {
  const auto load = [](int64_t input) {
    return ir::PwInstr{.op = PwOp::kLoad, .dtype = DType::kF32, .imm = input};
  };
  const auto op = [](PwOp op, uint32_t a, uint32_t b) {
    return ir::PwInstr{.op = op, .dtype = DType::kF32, .a = a, .b = b};
  };
  return {{"program", ir::PointwiseProgram{{load(0), load(1), op(PwOp::kMul, 0, 1), load(2),
                                            op(PwOp::kAdd, 2, 3), op(PwOp::kSilu, 4, 0)},
                                           {}}}};
}

TEST(Join, PartsAreToldOnceAndComplete) {
  struct Case {
    const CpuKernel* kernel;
    ir::Attrs attrs;
    size_t inputs;
  };
  const Case cases[] = {{&kLayerNormKernel, {{"eps", 1e-5}}, 1},
                        {&kRmsNormKernel, {{"eps", 1e-5}}, 1},
                        {&kRopeKernel, {}, 3}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.kernel->op->name);
    EXPECT_TRUE(c.kernel->tells_parts);
    for (const std::vector<int64_t>& dims : kShapes) {
      if (c.inputs == 3 && dims[1] % 2 != 0) continue;
      Tensor x(DType::kF32, dims), expected(DType::kF32, dims);
      x.Fill(3);
      const std::vector<Tensor*> inputs(c.inputs, &x);
      ASSERT_TRUE(RunKernel(*c.kernel, c.attrs, inputs, expected, PoolOf(1)).ok());
      for (const int threads : {1, 3}) {
        Tensor y(DType::kF32, dims);
        std::vector<std::atomic<int>> told(y.numel());
        const auto part = [&](const Part& part) {
          EXPECT_LT(part.worker, threads);
          for (int64_t i = part.begin; i < part.end; ++i) ++told[i];
          EXPECT_EQ(std::memcmp(part.elements, expected.bytes().data() + part.begin * 4,
                                (part.end - part.begin) * 4),
                    0);
        };
        const PartFn written(part);
        const Status status =
            WithArgs(*c.kernel, c.attrs, inputs, y, PoolOf(threads), {}, [&](KernelArgs args) {
              args.written = &written;
              args.passing = threads > 1;
              return c.kernel->run(args);
            });
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_TRUE(std::ranges::all_of(told, [](const auto& times) { return times == 1; }));
      }
    }
  }
}

// Also where the result takes the place of what lies between, or of the first step's input.
TEST(Join, SameBytesAsOneAfterAnother) {
  const ir::Attrs norm = {{"eps", 1e-5}}, scale = ScaleShiftSilu();
  for (const std::vector<int64_t>& dims : kShapes) {
    for (const Isa isa : AvailableIsas()) {
      ASSERT_TRUE(SetIsa(isa));
      Tensor x(DType::kF32, dims), weight(DType::kF32, dims, {}, 1, 2),
          bias(DType::kF32, dims, {}, 1, 2), between(DType::kF32, dims),
          expected(DType::kF32, dims);
      x.Fill(1), weight.Fill(2), bias.Fill(4);
      ASSERT_TRUE(RunKernel(kLayerNormKernel, norm, {&x}, between, PoolOf(1)).ok());
      ASSERT_TRUE(
          RunKernel(kPointwiseKernel, scale, {&between, &weight, &bias}, expected, PoolOf(1)).ok());
      for (const int threads : {1, 2, 3}) {
        for (const auto& [where, passing] : {std::pair("apart", false),
                                             {"apart", true},
                                             {"over what lies between", false},
                                             {"over the input", false},
                                             {"over the input", true}}) {
          SCOPED_TRACE(fmt::format("{} {} threads, {}, {}", Name(isa), threads, where, passing));
          Tensor in = x, y(DType::kF32, dims), out(DType::kF32, dims);
          Tensor& result = where[0] == 'a' ? out : where[5] == 'w' ? y : in;
          const Status status = WithArgs(
              kLayerNormKernel, norm, {&in}, y, PoolOf(threads), {}, [&](KernelArgs first) {
                return WithArgs(kPointwiseKernel, scale, {&y, &weight, &bias}, result,
                                PoolOf(threads), {}, [&](KernelArgs second) {
                                  EXPECT_TRUE(CanJoin(first, second, {}));
                                  EXPECT_EQ(CanPass(first, second),
                                            &result != &y || y.numel() == 0);
                                  first.passing = passing && &result != &y;
                                  const EarlierStep earlier{kLayerNormKernel, first};
                                  second.earlier = &earlier;
                                  return kPointwiseKernel.run(second);
                                });
              });
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_EQ(std::memcmp(result.bytes().data(), expected.bytes().data(),
                                expected.numel() * sizeof(float)),
                    0);
        }
      }
    }
  }
  SetIsa(BestIsa());
}

// Views of one buffer: x is what the first step reads, y lies between, z is the result.
class JoinMemory : public ::testing::Test {
 protected:
  static constexpr std::array<int64_t, 2> kDims = {4, 8}, kDense = {8, 1}, kTurned = {1, 4},
                                          kOfRow = {0, 1}, kBack = {-8, 1}, kFlat = {32, 1};

  View At(int64_t element, const std::array<int64_t, 2>& strides = kDense,
          DType dtype = DType::kF32, const std::array<int64_t, 2>& dims = kDims) {
    return {.data = reinterpret_cast<std::byte*>(&memory_[element]),
            .dtype = dtype,
            .rank = 2,
            .dims = dims.data(),
            .strides = strides.data()};
  }
  static KernelArgs Step(const View& in, const View& out) {
    return {.inputs = {&in, 1},
            .outputs = {&out, 1},
            .params = {},
            .scratch = {},
            .pool = PoolOf(1),
            .prepared = {},
            .in_place = false};
  }
  static bool Can(const View& x, const View& y, const View& read, const View& z,
                  std::span<const float> scratch = {}) {
    return CanJoin(Step(x, y), Step(read, z), std::as_bytes(scratch));
  }
  float memory_[400] = {};
};

TEST_F(JoinMemory, WhatIsSharedDecides) {
  const View x = At(0), y = At(100), z = At(200);
  EXPECT_TRUE(Can(x, y, y, z));
  EXPECT_TRUE(Can(x, x, x, x));       // everything in place
  EXPECT_TRUE(Can(x, y, y, At(32)));  // side by side
  EXPECT_TRUE(Can(x, y, At(100, kDense), z));
  EXPECT_FALSE(Can(x, y, At(100, kTurned), z));  // reads across the parts
  EXPECT_FALSE(Can(x, y, At(100, kOfRow), z));   // one row for all
  EXPECT_FALSE(Can(x, y, At(101), z));           // shifted
  EXPECT_FALSE(Can(x, y, y, At(31)));            // the result over rows that are still to come
  EXPECT_FALSE(Can(At(0, kTurned), y, y, At(0)));
  EXPECT_FALSE(Can(At(24, kBack), y, y, At(0)));
  EXPECT_FALSE(Can(x, y, y, At(0, kDense, DType::kBF16)));  // two of it in one element's place
  EXPECT_FALSE(Can(x, y, y, At(0, kDense, DType::kF64)));
  EXPECT_FALSE(Can(x, y, y, z, {&memory_[31], 4}));  // scratch over the input
  EXPECT_TRUE(Can(x, y, y, z, {&memory_[32], 4}));
  const std::array<int64_t, 2> flat = {1, 32}, more = {4, 9}, strides = {9, 1};
  EXPECT_TRUE(Can(x, y, At(100, kFlat, DType::kF32, flat), At(200, kFlat, DType::kF32, flat)));
  EXPECT_FALSE(Can(x, y, y, At(200, strides, DType::kF32, more)));  // not as many elements
  EXPECT_TRUE(CanPass(Step(x, y), Step(y, z)));
  EXPECT_FALSE(CanPass(Step(x, y), Step(y, y)));  // the result lies where parts would
  EXPECT_FALSE(CanPass(Step(y, y), Step(y, z)));  // and the input
}

}  // namespace
}  // namespace liveshape::cpu
