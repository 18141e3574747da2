#include "ir/pointwise.h"

#include <iterator>

namespace liveshape::ir {
namespace {

// What the printer and the verifier need to know of an instruction. What it computes, on which dtypes,
// and how each backend spells it is ops/pointwise/table, which ir may not depend on.
struct Shape {
  const char* name;
  int operands;
};

constexpr Shape kShapes[] = {
    // In the order of PwOp.
    {"load", 0},     {"const", 0},     {"scalar", 0}, {"iota", 0},  {"cast", 1},
    {"add", 2},      {"sub", 2},       {"mul", 2},    {"div", 2},   {"floordiv", 2},
    {"truncdiv", 2}, {"remainder", 2}, {"fmod", 2},   {"pow", 2},   {"min", 2},
    {"max", 2},      {"eq", 2},        {"ne", 2},     {"lt", 2},    {"le", 2},
    {"gt", 2},       {"ge", 2},        {"and", 2},    {"or", 2},    {"xor", 2},
    {"not", 1},      {"shl", 2},       {"shr", 2},    {"neg", 1},   {"abs", 1},
    {"sign", 1},     {"square", 1},    {"sqrt", 1},   {"rsqrt", 1}, {"reciprocal", 1},
    {"exp", 1},      {"exp2", 1},      {"expm1", 1},  {"log", 1},   {"log2", 1},
    {"log1p", 1},    {"sin", 1},       {"cos", 1},    {"tan", 1},   {"tanh", 1},
    {"erf", 1},      {"sigmoid", 1},   {"silu", 1},   {"gelu", 1},  {"gelu_tanh", 1},
    {"relu", 1},     {"floor", 1},     {"ceil", 1},   {"trunc", 1}, {"round", 1},
    {"isnan", 1},    {"isinf", 1},     {"where", 3},  {"log10", 1}, {"asin", 1},
    {"acos", 1},     {"atan", 1},      {"sinh", 1},   {"cosh", 1},  {"atan2", 2},
};
static_assert(std::size(kShapes) == static_cast<size_t>(PwOp::kCount));

}  // namespace

const char* Name(PwOp op) { return kShapes[static_cast<size_t>(op)].name; }
int OperandCount(PwOp op) { return kShapes[static_cast<size_t>(op)].operands; }

}  // namespace liveshape::ir
