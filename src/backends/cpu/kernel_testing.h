// For tests of kernels: tensors of any dtype and layout, and a kernel run on them as the backend would,
// at every ISA of the machine and several thread counts.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernel.h"
#include "backends/cpu/simd/isa.h"
#include "base/half.h"

namespace liveshape::cpu::testing {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A strided tensor in a poisoned block: what lies between and behind its elements is 0x7f.
class Tensor {
 public:
  // order: dims from slowest to fastest in memory (default: as they come); gap: elements are this many
  // apart; zero_stride: bit d set makes dim d a broadcast.
  Tensor(DType dtype, std::vector<int64_t> dims, std::vector<int> order = {}, int64_t gap = 1,
         uint32_t zero_stride = 0)
      : dtype_(dtype), dims_(std::move(dims)), strides_(dims_.size()) {
    if (order.empty())
      for (size_t d = 0; d < dims_.size(); ++d) order.push_back(static_cast<int>(d));
    int64_t stride = gap;
    for (size_t i = order.size(); i-- > 0;) {
      const int d = order[i];
      if (zero_stride >> d & 1) continue;
      strides_[d] = stride;
      stride *= std::max<int64_t>(1, dims_[d]);
    }
    bytes_.assign((stride + 1) * SizeOf(dtype) + 64, std::byte{0x7f});
  }

  View view() {
    return {.data = bytes_.data() + first_,
            .dtype = dtype_,
            .rank = static_cast<int>(dims_.size()),
            .dims = dims_.data(),
            .strides = strides_.data()};
  }
  // Elements lie as in session memory; else they begin anywhere in a line.
  void BeginWithLine() {
    bytes_.resize(bytes_.size() + 64, std::byte{0x7f});
    first_ = -reinterpret_cast<uintptr_t>(bytes_.data()) % 64;
  }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d : dims_) n *= d;
    return n;
  }
  // Where element `flat` (row-major over dims) lies.
  int64_t Offset(int64_t flat) const {
    int64_t at = 0;
    for (size_t d = dims_.size(); d-- > 0; flat /= dims_[d]) at += flat % dims_[d] * strides_[d];
    return at;
  }

  double Get(int64_t flat) const {
    const int64_t at = Offset(flat);
    switch (dtype_) {
      case DType::kF32: return Read<float>(at);
      case DType::kF16: return F32FromF16(Read<uint16_t>(at));
      case DType::kBF16: return F32FromBF16(Read<uint16_t>(at));
      case DType::kF64: return Read<double>(at);
      default: return static_cast<double>(GetInt(flat));
    }
  }
  int64_t GetInt(int64_t flat) const {
    const int64_t at = Offset(flat);
    switch (dtype_) {
      case DType::kI64: return Read<int64_t>(at);
      case DType::kI32: return Read<int32_t>(at);
      case DType::kI16: return Read<int16_t>(at);
      case DType::kI8: return Read<int8_t>(at);
      default: return Read<uint8_t>(at);
    }
  }
  void Set(int64_t flat, double v) {
    const int64_t at = Offset(flat);
    switch (dtype_) {
      case DType::kF32: return Write(at, static_cast<float>(v));
      case DType::kF16: return Write(at, F16FromF32(static_cast<float>(v)));
      case DType::kBF16: return Write(at, BF16FromF32(static_cast<float>(v)));
      case DType::kF64: return Write(at, v);
      default: return SetInt(flat, static_cast<int64_t>(v));
    }
  }
  void SetInt(int64_t flat, int64_t v) {
    const int64_t at = Offset(flat);
    switch (dtype_) {
      case DType::kI64: return Write(at, v);
      case DType::kI32: return Write(at, static_cast<int32_t>(v));
      case DType::kI16: return Write(at, static_cast<int16_t>(v));
      case DType::kBool: return Write(at, static_cast<uint8_t>(v != 0));
      default: return Write(at, static_cast<uint8_t>(v));
    }
  }
  Tensor& Fill(uint32_t seed, double lo = -3, double hi = 3) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> real(lo, hi);
    for (int64_t i = 0; i < numel(); ++i) Set(i, real(random));
    return *this;
  }

 private:
  template <typename T>
  T Read(int64_t at) const {
    T v;
    std::memcpy(&v, bytes_.data() + first_ + at * sizeof(T), sizeof(T));
    return v;
  }
  template <typename T>
  void Write(int64_t at, T v) {
    std::memcpy(bytes_.data() + first_ + at * sizeof(T), &v, sizeof(T));
  }
  DType dtype_;
  std::vector<int64_t> dims_, strides_;
  std::vector<std::byte> bytes_;
  size_t first_ = 0;  // where elements begin
};

// run(args), prepared as the backend does: scratch is of the declared size, and poisoned.
inline Status WithArgs(const CpuKernel& kernel, ir::Attrs attrs, std::vector<Tensor*> inputs,
                       Tensor& out, ThreadPool& pool, std::vector<int64_t> params,
                       const std::function<Status(const KernelArgs&)>& run) {
  ir::Graph graph;
  ir::Node node;
  auto type = [&](const Tensor& t) {
    ir::TensorType result{t.dtype(), {}};
    for (int64_t d : t.dims()) result.dims.push_back(graph.table().Int(d));
    return result;
  };
  node.op = kernel.op;
  node.attrs = std::move(attrs);
  std::vector<View> views;
  for (Tensor* t : inputs) {
    node.inputs.push_back(t ? graph.AddInput("x", type(*t)) : ir::kNoValue);
    views.push_back(t ? t->view() : View{});
  }
  node.outputs = {graph.AddValue("y", type(out))};
  std::unique_ptr<Prepared> prepared;
  if (kernel.prepare) {
    auto result = kernel.prepare(graph, node);
    if (!result.ok()) return std::move(result).status();
    prepared = *std::move(result);
  }
  const int64_t bytes = kernel.scratch ? kernel.scratch(graph, node, pool.size()).value() : 0;
  std::vector<std::byte> scratch(bytes + 128, std::byte{0xff});
  const auto base = reinterpret_cast<uintptr_t>(scratch.data());
  std::byte* aligned = scratch.data() + (64 - base % 64) % 64;
  const View result = out.view();
  Status status = run({.inputs = views,
                       .outputs = {&result, 1},
                       .params = params,
                       .scratch = aligned,
                       .pool = pool,
                       .prepared = prepared.get(),
                       .in_place = false});
  for (std::byte* p = aligned + bytes; p < scratch.data() + scratch.size(); ++p)
    EXPECT_EQ(*p, std::byte{0xff}) << "written beyond the declared scratch";
  return status;
}

inline Status RunKernel(const CpuKernel& kernel, ir::Attrs attrs, std::vector<Tensor*> inputs,
                        Tensor& out, ThreadPool& pool, std::vector<int64_t> params = {}) {
  return WithArgs(kernel, std::move(attrs), std::move(inputs), out, pool, std::move(params),
                  kernel.run);
}

inline ThreadPool& PoolOf(int threads) {
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  return pools[threads - 1];
}

// `check(out)` for every ISA; and every thread count gives the same bytes, nothing beyond the output.
inline void ForEachIsa(const CpuKernel& kernel, const ir::Attrs& attrs, std::vector<Tensor*> inputs,
                       const Tensor& empty_out, const std::function<void(const Tensor&)>& check,
                       std::vector<int64_t> params = {}) {
  for (Isa isa : AvailableIsas()) {
    SCOPED_TRACE(Name(isa));
    ASSERT_TRUE(SetIsa(isa));
    Tensor first = empty_out;
    Status status = RunKernel(kernel, attrs, inputs, first, PoolOf(1), params);
    ASSERT_TRUE(status.ok()) << status.message();
    check(first);
    const size_t size = first.numel() * SizeOf(first.dtype());
    for (size_t i = size; i < first.bytes().size(); ++i)
      ASSERT_EQ(first.bytes()[i], std::byte{0x7f}) << "written beyond the output";
    for (int threads : {2, 3}) {
      Tensor again = empty_out;
      ASSERT_TRUE(RunKernel(kernel, attrs, inputs, again, PoolOf(threads), params).ok());
      ASSERT_EQ(std::memcmp(first.bytes().data(), again.bytes().data(), first.bytes().size()), 0)
          << threads << " threads differ";
    }
  }
  SetIsa(BestIsa());
}

// Equal up to `tolerance` relative to max(1, |b|); NaN equals NaN.
inline bool Close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}

}  // namespace liveshape::cpu::testing
