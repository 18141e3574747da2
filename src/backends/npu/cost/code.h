// What one compute record asks of the machine, apart from its extents. The tile program names it once a kernel; the
// cost model turns (code, live extents) into cycles, the value executor into numbers.
//
//   Code add = {.name = "add", .unit = Unit::kVector};
//   add.per_element[VectorClass::kSimple] = 1;            // extents: [rows, columns]
//   Code mac = {.name = "matmul", .unit = Unit::kArray};  // extents: [batch, M, K, N]; B is the stationary operand
//
// Counts are what the algorithm does, never what fits a measurement.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace liveshape::npu {

enum class Unit : uint8_t { kArray, kVector };

enum class VectorClass : uint8_t {
  kSimple,          // add, multiply, fused multiply-add, compare, select, minimum, conversion
  kDivide,          // divide, reciprocal, square root
  kTranscendental,  // exp, log, tanh, erf, sin, power
  kCount,
};

struct Counts : std::array<float, static_cast<size_t>(VectorClass::kCount)> {
  float& operator[](VectorClass c) { return at(static_cast<size_t>(c)); }
  float operator[](VectorClass c) const { return at(static_cast<size_t>(c)); }
};

struct Code {
  std::string name;
  Unit unit = Unit::kVector;
  // Of a vector code: operations for every element of the extents, and for every row (all but the last extent).
  Counts per_element = {};
  Counts per_row = {};
  // The last extent is reduced: partial results cross the lanes once a row, this many times.
  int lane_reductions = 0;
  // So many of a record's operands are written; they come first. Timing needs to know writes from reads: what waits
  // for what, and that nothing is read before it was written.
  int outputs = 1;
};

}  // namespace liveshape::npu
