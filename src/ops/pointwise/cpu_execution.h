// A program's values while tiles go by, for one worker. The caller finds the tiles of loads and indices:
//
//   Execution execution(program, memory);
//   for (const Step& step : program.steps)
//     if (step.uniform()) execution.SetNumber(step, is_float, bits);   // once
//   for (each tile) {
//     for (const Step& step : program.steps) {
//       if (step.kind == kLoad) execution.SetTile(step, elements);     // or copies into execution.Register(step) first
//       if (step.kind == kIota) ...
//       if (step.computes() && !execution.Run(step, n, output)) return "integer division by zero";
//     }
//     execution.result();   // == output where the last step could write there
//   }
//
// A tile is one row, or several if program.takes_rows: loads say how far apart theirs are, Run how many there are.
#pragma once

#include <cstddef>

#include "ops/pointwise/cpu_program.h"

namespace liveshape::cpu::pw {

class Execution {
 public:
  static size_t Bytes(const Program& program);  // a multiple of 64
  Execution(const Program& program, std::byte* memory, Isa chains = MemoryIsa());

  std::byte* Register(const Step& step) const { return RegisterAt(step.reg); }
  void SetNumber(const Step& step, bool is_float, int64_t bits);
  void SetTile(const Step& step, const std::byte* elements, int64_t row_step = 0) {
    operands_[step.value].data = elements;
    operands_[step.value].row_step = row_step;
    operands_[step.value].splat = false;
  }
  // All elements of a row are the same. Only if not step.whole.
  void SetSplat(const Step& step, const std::byte* element, int64_t row_step = 0) {
    operands_[step.value].data = element;
    operands_[step.value].row_step = row_step;
    operands_[step.value].splat = true;
  }
  struct Rows {
    int64_t n;  // elements of each
    int64_t count = 1;
    int64_t output_step = 0;   // bytes, as all steps of rows
    bool past_caches = false;  // the output is streamed; only if program.streams
    bool from_afar = false;    // operands and output lie beyond L2
  };
  // The result goes to `output` if the step makes it and output is not null, else to its register.
  bool Run(const Step& step, Rows rows, std::byte* output);
  const std::byte* result() const { return operands_[program_.result].data; }

 private:
  struct Operand {
    const std::byte* data;
    int64_t row_step;
    bool splat;
    alignas(8) std::byte number[8];  // of a uniform value that no step reads as a whole tile
  };

  std::byte* RegisterAt(int reg) const { return registers_ + reg * program_.register_bytes; }
  std::byte* Target(uint32_t value, const Rows& rows, std::byte* output);
  bool RunFunction(const Step& step, const Rows& rows, std::byte* output);
  void RunChain(const Step& step, const Rows& rows, std::byte* output);

  const Program& program_;
  const int isa_;
  const ChainRunner chain_;
  Operand* const operands_;  // by value
  ChainOp* const ops_;       // of all chains, linked when they first run
  std::byte* const registers_;
};

}  // namespace liveshape::cpu::pw
