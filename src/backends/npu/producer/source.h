// The C++ source of a trace producer: for every kernel of a model a function with native loops over shape_args, which
// emits the records that the in-process walk emits (N1). It needs nothing but the text of include/liveshape/trace.h,
// which is part of it.
//
//   const std::string source = ProducerSource(model);      // compile with producer/library.h
#pragma once

#include <string>

#include "backends/npu/lower/schedule.h"

namespace liveshape::npu {

std::string ProducerSource(const Model& model);

// Of the tile programs: a library made from others has another one.
std::string Digest(const Model& model);

}  // namespace liveshape::npu
