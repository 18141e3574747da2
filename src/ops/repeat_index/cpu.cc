#include <algorithm>

#include "backends/cpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

template <typename T>
Status Repeat(const View& repeats, int64_t* out, int64_t count) {
  const int64_t n = repeats.dims[0], stride = repeats.strides[0];
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t times = repeats.as<T>()[i * stride];
    if (times < 0) return InvalidArgument("repeats[{}] is {}: negative", i, times);
    if (times > count - at)
      return InvalidArgument("repeats sum to more than {}, which the program requires", count);
    std::fill_n(out + at, times, i);
    at += times;
  }
  if (at != count) return InvalidArgument("repeats sum to {}, the program requires {}", at, count);
  return {};
}

Status Run(const KernelArgs& args) {
  const View &repeats = args.in(0), &y = args.out(0);
  return repeats.dtype == DType::kI32 ? Repeat<int32_t>(repeats, y.as<int64_t>(), y.dims[0])
                                      : Repeat<int64_t>(repeats, y.as<int64_t>(), y.dims[0]);
}

}  // namespace

extern const CpuKernel kRepeatIndexKernel = {.op = &ops::kRepeatIndex, .run = Run};

}  // namespace liveshape::cpu
