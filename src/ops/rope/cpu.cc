// Rotary positions: x * cos + rotate_half(x) * sin. Each product and the sum are rounded to the dtype, as
// torch's three eager ops do; nothing is fused, so f32 results are torch's bit for bit.
#include "backends/cpu/rows.h"
#include "ops/ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope/cpu.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/half-inl.h"

#ifndef LS_OPS_ROPE_ONCE
#define LS_OPS_ROPE_ONCE
namespace liveshape::cpu {
struct RopeRow {
  const void* x;
  const void* cos;
  const void* sin;
  void* y;
  int64_t n;  // even
};
using RopeFn = void (*)(const RopeRow& row);
}  // namespace liveshape::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// One half of a row: y = x * cos + sign * other * sin.
template <class E>
HWY_INLINE void Half(E e, const typename E::Type* x, const typename E::Type* other,
                     const typename E::Type* c, const typename E::Type* s, typename E::Type* y,
                     int64_t n, bool negate) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto sign = hn::Set(d, negate ? -0.0f : 0.0f);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = Rounded(e, d, hn::Mul(LoadF32(e, d, x + i), LoadF32(e, d, c + i)));
    const auto turned = hn::Xor(LoadF32(e, d, other + i), sign);
    const auto b = Rounded(e, d, hn::Mul(turned, LoadF32(e, d, s + i)));
    StoreF32(e, hn::Add(a, b), d, y + i);
  }
  if (i < n) {
    const int64_t left = n - i;
    const auto a =
        Rounded(e, d, hn::Mul(LoadPartial(e, d, x + i, left), LoadPartial(e, d, c + i, left)));
    const auto turned = hn::Xor(LoadPartial(e, d, other + i, left), sign);
    const auto b = Rounded(e, d, hn::Mul(turned, LoadPartial(e, d, s + i, left)));
    StorePartial(e, hn::Add(a, b), d, y + i, left);
  }
}

template <class E>
void Rope(const RopeRow& row) {
  using T = typename E::Type;
  const int64_t half = row.n / 2;
  const T* x = static_cast<const T*>(row.x);
  const T* c = static_cast<const T*>(row.cos);
  const T* s = static_cast<const T*>(row.sin);
  T* y = static_cast<T*>(row.y);
  Half(E{}, x, x + half, c, s, y, half, /*negate=*/true);
  Half(E{}, x + half, x, c + half, s + half, y + half, half, /*negate=*/false);
}

RopeFn FindRope(DType dtype) {
  return dtype == DType::kF32 ? Rope<F32> : dtype == DType::kF16 ? Rope<F16> : Rope<BF16>;
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FindRope);

void RopeDouble(const RopeRow& row) {
  const int64_t half = row.n / 2;
  const double* x = static_cast<const double*>(row.x);
  const double* c = static_cast<const double*>(row.cos);
  const double* s = static_cast<const double*>(row.sin);
  double* y = static_cast<double*>(row.y);
  for (int64_t i = 0; i < row.n; ++i) {
    const double turned = i < half ? -x[i + half] : x[i - half];
    y[i] = x[i] * c[i] + turned * s[i];
  }
}

Status Run(const KernelArgs& args) {
  const View& x = args.in(0);
  const int64_t n = x.dims[x.rank - 1];
  const RopeFn rope = x.dtype == DType::kF64 ? RopeDouble : LS_SIMD(FindRope)(x.dtype);
  ForEachRow<3>(args, {&x, &args.in(1), &args.in(2)},
                [&](const auto& in, std::byte* out) { rope({in[0], in[1], in[2], out, n}); });
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  return std::unique_ptr<Prepared>();
}

}  // namespace

extern const CpuKernel kRopeKernel = {
    .op = &ops::kRope, .run = Run, .prepare = Prepare, .need = NeedInnerDense, .tells_parts = true};

}  // namespace liveshape::cpu
#endif
