#include "ir/dtype.h"

namespace liveshape {

const char* Name(DType t) {
  constexpr const char* kNames[kDTypeCount] = {"f32", "f16", "bf16", "f64", "i64",
                                               "i32", "i16", "i8",   "u8",  "bool"};
  return kNames[static_cast<int>(t)];
}

}  // namespace liveshape
