// A pointwise program made ready for tiles: every instruction is a function pointer per ISA over operands
// that lie in a few tile registers, assigned by liveness.
#pragma once

#include <vector>

#include "base/status.h"
#include "ops/pointwise/cpu_tiles.h"

namespace liveshape::cpu::pw {

inline constexpr int kNoRegister = -1;

struct Step {
  enum class Kind : uint8_t {
    kLoad,     // imm: input
    kConst,    // imm: bits, as in ir::PwInstr
    kScalar,   // imm: index into the program's scalars
    kIota,     // imm: output dim
    kCompute,  // fn
  };
  Kind kind;
  DType dtype;     // of the result
  uint32_t value;  // where the result's pointer is kept; operands a, b, c are values too
  uint32_t a = 0, b = 0, c = 0;
  int operands = 0;
  int reg = kNoRegister;
  int64_t imm = 0;
  TileFn fn[kIsaCount] = {};
  TileFn round[kIsaCount] =
      {};  // afterwards, in place: f16 and bf16 are rounded at each instruction
  // The same in every tile: filled once, its register is never reused.
  bool uniform() const { return kind == Kind::kConst || kind == Kind::kScalar; }
};

struct Program {
  std::vector<Step> steps;
  uint32_t result = 0;        // value
  DType dtype = DType::kF32;  // of the result
  // The step that makes the result may write it straight to the output; else it is narrowed or copied.
  bool result_in_place = false;
  uint32_t result_step = 0;
  TileFn widen[2][kIsaCount] = {};  // f16, bf16
  TileFn narrow[kIsaCount] = {};    // of the result, if it is a half
  size_t values = 0;
  int registers = 0;
  size_t register_bytes = 0;       // of one register
  int weight = 1;                  // additions an element, for splitting work
  std::vector<bool> float_scalar;  // the scalar's 64 bits are a double
};

Result<Program> CompileProgram(const ir::PointwiseProgram& source);

}  // namespace liveshape::cpu::pw
