// One row of attention's mask over the keys of a block, read where it lies: the pass that finds the row's
// maximum applies it, and nothing is copied.
//
//   WithMask<T>(call, row, key, count, [&](const auto& mask) HWY_ATTR {
//     seen = mask.Seen(count);               // keys after the last that is seen need no score
//     s = mask.Apply(d, hn::LoadU(d, scores + i), i);    // i + lanes <= count
//     s = mask.ApplyFirst(d, s, i, rest);                // the end of a row: nothing is read beyond it
//   });
#if defined(LIVESHAPE_ATTENTION_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_ATTENTION_MASK_INL_H_
#undef LIVESHAPE_ATTENTION_MASK_INL_H_
#else
#define LIVESHAPE_ATTENTION_MASK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cpu/gemm/element-inl.h"
#include "hwy/highway.h"
#include "ops/attention/cpu_call.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
using RowTag = hn::CappedTag<float, 16>;  // rows are padded to 16

struct NoMask {
  static constexpr bool kHides = false;
  bool Hidden(int64_t) const { return false; }
  int64_t Seen(int64_t count) const { return count; }
  template <class D>
  HWY_INLINE hn::Vec<D> Apply(D, hn::Vec<D> s, int64_t) const {
    return s;
  }
  template <class D>
  HWY_INLINE hn::Vec<D> ApplyFirst(D, hn::Vec<D> s, int64_t, int64_t) const {
    return s;
  }
};

// Floats of any width are added, and -inf hides; of bytes, 0 hides. A hidden score is -inf whatever it was.
template <typename M>
struct MaskRow {
  static constexpr bool kHides = true;
  const M* row;

  HWY_INLINE bool Hidden(int64_t key) const {
    if constexpr (sizeof(M) == 1)
      return row[key] == 0;
    else
      return ToFloat(row[key]) == kMinusInf;
  }

  template <class D>
  HWY_INLINE hn::Mask<D> HiddenIn(D d, int64_t key) const {
    if constexpr (sizeof(M) == 1) {
      const hn::RebindToSigned<D> di;
      const hn::Rebind<uint8_t, D> bytes;
      return hn::RebindMask(d,
                            hn::Eq(hn::PromoteTo(di, hn::LoadU(bytes, row + key)), hn::Zero(di)));
    } else {
      return hn::Eq(LoadAsFloat(d, row + key), hn::Set(d, kMinusInf));
    }
  }

  template <class D>
  HWY_INLINE hn::Vec<D> Apply(D d, hn::Vec<D> s, int64_t key) const {
    const auto hidden = HiddenIn(d, key);
    if constexpr (sizeof(M) != 1) s = hn::Add(s, LoadAsFloat(d, row + key));
    return hn::IfThenElse(hidden, hn::Set(d, kMinusInf), s);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> ApplyFirst(D d, hn::Vec<D> s, int64_t key, int64_t count) const {
    M rest[16] = {};
    for (int64_t i = 0; i < count; ++i) rest[i] = row[key + i];
    return MaskRow{rest}.Apply(d, s, 0);
  }

  // One more than the last of `count` keys that is seen. From the end: what is hidden there is found once,
  // and costs neither a product nor a weight.
  int64_t Seen(int64_t count) const {
    const RowTag d;
    constexpr int64_t kStep = hn::MaxLanes(RowTag());
    while (count >= kStep && hn::AllTrue(d, HiddenIn(d, count - kStep))) count -= kStep;
    while (count > 0 && Hidden(count - 1)) --count;
    return count;
  }
};

template <typename M, class Body>
HWY_INLINE void WithRowOf(const View& mask, int64_t offset, int64_t count, const Body& body) {
  const M* row = mask.as<const M>() + offset;
  const int64_t stride = mask.strides[3];
  if (stride == 1) return body(MaskRow<M>{row});
  M gathered[std::max(kAttentionKeys, kDecodeKeys)];
  for (int64_t i = 0; i < count; ++i) gathered[i] = row[i * stride];
  body(MaskRow<M>{gathered});
}

// Calls body with the mask of a row over keys [begin, begin + count): of the type of q, or bool.
template <typename T, class Body>
HWY_INLINE void WithMask(const AttentionCall& call, const AttentionRow& row, int64_t begin,
                         int64_t count, const Body& body) {
  if (call.mask == nullptr) return body(NoMask());
  const View& mask = *call.mask;
  const int64_t offset = row.Offset(mask) + begin * mask.strides[3];
  if (mask.dtype == DType::kBool) return WithRowOf<uint8_t>(mask, offset, count, body);
  WithRowOf<T>(mask, offset, count, body);
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
