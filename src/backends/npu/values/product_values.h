// Values of the codes of a matrix product; see lower/product.h for what they stand for. Buffers are dense by the live
// extents of the record.
#pragma once

#include "backends/npu/lower/kernel.h"

namespace liveshape::npu {

// Extents [1, M, K, N]; operands c (f32), a, b. Argument 0: not 0 begins the sum.
ValueFunction MultiplyValues(DType a, DType b);
// The same, a being a band of images, [image, channel, row, column], in which the taps of each pixel are found. Arguments 1 to
// 4: rows and columns of pixels of an image, taps down and across. M * K is at most `most`.
struct Steps { int64_t stride, dilation; };
ValueFunction MultiplyBandValues(DType a, DType b, Steps down, Steps across, int64_t most);
// Extents [M, N]; operands c (f32, in place), bias.
ValueFunction BiasValues(DType bias);
// Extents [M, N]; operands out, c (f32).
ValueFunction RoundValues(DType out);
// Extents [M, K]; operand a.
ValueFunction ZeroValues(DType dtype);
// Extents [K, N]; operands b (f32), the blocks of ops/linear/quantised.h that cover it.
ValueFunction DequantiseValues(int bits);

}  // namespace liveshape::npu
