// A pointwise program made ready for tiles: steps that are functions over whole tiles, and chains (cpu_chain.h) of the
// cheap f32 instructions between them. Values that a later step reads lie in a few tile registers, assigned by
// liveness; inputs are read where they lie.
#pragma once

#include <vector>

#include "base/status.h"
#include "ops/pointwise/cpu_chain.h"
#include "ops/pointwise/cpu_tiles.h"

namespace liveshape::cpu::pw {

inline constexpr int kNoRegister = -1;

// An op of a chain, its operands still values.
struct ChainStep {
  ChainCode code;
  uint32_t a = 0, b = 0;  // for a store, a is the value that is stored
  int operands = 0;       // that are values
  uint8_t form = kMemory;
  bool stores() const { return code >= ChainCode::kStore && code <= ChainCode::kStoreBool; }
};

struct Step {
  enum class Kind : uint8_t {
    kLoad,     // imm: input
    kConst,    // imm: bits, as in ir::PwInstr
    kScalar,   // imm: index into the program's scalars
    kIota,     // imm: output dim
    kCompute,  // fn
    kChain,    // chain
  };
  Kind kind;
  DType
      dtype;  // of the elements in memory: an input of halves is a value of halves, one in a tile is f32
  uint32_t value;  // the result; operands a, b, c are values too
  uint32_t a = 0, b = 0, c = 0;
  int operands = 0;
  int reg = kNoRegister;
  int64_t imm = 0;
  // Of a load or a number: a step reads it as a whole tile even where all elements are the same.
  bool whole = false;
  DType round = DType::kF32;  // of a number: the half that it is rounded to, else f32
  TileFn fn[kIsaCount] = {};
  std::vector<ChainStep> chain = {};
  size_t first_op = 0;  // where the chain's ops lie among those of the program
  // The same in every tile.
  bool uniform() const { return kind == Kind::kConst || kind == Kind::kScalar; }
  bool computes() const { return kind == Kind::kCompute || kind == Kind::kChain; }
};

struct Program {
  std::vector<Step> steps;
  uint32_t result = 0;        // value
  DType dtype = DType::kF32;  // of the result
  // The step that makes the result may write it straight to the output; else it is copied.
  bool result_in_place = false;
  // That step is a chain which can write it past the caches.
  bool streams = false;
  // One step makes the result from inputs and numbers: it may take several rows at once, of at most `longest_row`
  // elements, where none of them has to be copied.
  bool takes_rows = false;
  int64_t longest_row = kTile;
  std::vector<int> registers_of;  // by value: where it lies if it is computed, else kNoRegister
  size_t chain_ops = 0;           // with a kEnd for each chain
  size_t values = 0;
  int registers = 0;
  size_t register_bytes = 0;       // of one register
  int weight = 1;                  // additions an element, for splitting work
  std::vector<bool> float_scalar;  // the scalar's 64 bits are a double
};

Result<Program> CompileProgram(const ir::PointwiseProgram& source);

}  // namespace liveshape::cpu::pw
