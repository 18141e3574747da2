// The shape program: a straight line of integer instructions that turns the live values of the
// symbols into every number the kernels read. Evaluating it is the whole of a bind.
//
//   ProgramBuilder builder(table);
//   uint32_t dims = builder.Tuple({s, table.Int(64)});      // two consecutive slots of the block
//   uint32_t rows = builder.Slot(s * 64);                    // one slot; equal expressions share it
//   builder.Check(Le(s, table.Int(64)), "capacity of `cache` is 64, `S` would be {S}");
//   ShapeProgram program = builder.Finish();
//
//   std::vector<int64_t> block(program.block_size());
//   program.SetSymbols(values, block);                       // block[i] = value of symbol i
//   LS_RETURN_IF_ERROR(program.Run(/*stage=*/0, block));     // checks included; nothing else is touched
//   kernel(&block[dims]);
//
// Instructions are grouped by the stage in which their inputs become known (Stage in expr.h), so a
// run whose host values changed re-evaluates section 1 only. Run allocates nothing unless it fails.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sym/expr.h"

namespace liveshape::sym {

class ShapeProgram {
 public:
  size_t block_size() const { return block_size_; }
  size_t symbol_count() const { return symbol_count_; }
  Stage stage_count() const { return static_cast<Stage>(sections_.size()); }  // at least 1
  size_t instruction_count() const { return code_.size(); }

  // Writes symbol values (those of later stages may be anything) and the program's constants.
  void SetSymbols(std::span<const int64_t> values, std::span<int64_t> block) const;

  // Evaluates one stage's section. Fails on overflow, x//0 and on a Check that does not hold, with
  // the expression or the check's message; the block is then unspecified, which is why bind uses a
  // scratch one. Fails too where a symbol of this stage is outside its range: all simplification
  // rests on the ranges, so a Check of them would have been simplified away.
  Status Run(Stage stage, std::span<int64_t> block) const;

 private:
  friend class ProgramBuilder;
  // Operands are slots; n-ary nodes are chains of binary ones. A select whose sides may fail is a
  // forward jump around the side not chosen, so only the chosen one can fail the bind.
  enum class Op : uint8_t;
  struct Instruction {
    Op op;
    uint32_t out, a, b, c;
  };
  struct Section { uint32_t begin, end; };
  struct Symbol {
    std::string name, display;
    int64_t lo, hi;
    Stage stage;
  };

  template <typename Fail>
  bool Execute(const Section& section, int64_t* block, Fail&& fail) const;
  Status Failure(const Instruction& at, uint8_t fault, std::span<const int64_t> block) const;
  Status CheckRanges(Stage stage, std::span<const int64_t> block) const;
  std::string WithValues(std::string_view message, std::span<const int64_t> block) const;

  std::vector<Instruction> code_;
  std::vector<Section> sections_;
  std::vector<std::pair<uint32_t, int64_t>> constants_;  // slot, bits (a double's for floats)
  std::vector<std::string> messages_;
  std::vector<std::string> slot_names_;  // the expression of a slot, for error messages
  std::vector<Symbol> symbols_;
  size_t block_size_ = 0;
  size_t symbol_count_ = 0;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(Table& table);
  ~ProgramBuilder();

  uint32_t Slot(Expr e);                              // any slot that holds e
  uint32_t Tuple(std::span<const Expr> expressions);  // consecutive slots; equal tuples share
  uint32_t Tuple(std::initializer_list<Expr> expressions) {
    return Tuple(std::span<const Expr>(expressions.begin(), expressions.size()));
  }
  // `{name}` in the message is replaced by that symbol's value (by name or display) on failure.
  void Check(Expr condition, std::string message);
  ShapeProgram Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace liveshape::sym
