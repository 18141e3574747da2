// From the dims that inputs have to the symbols that they mean.
//
//   SymbolSolver solver(table);
//   solver.AddEquation(2 * s0, "input 0 `x` dim 1");
//   LS_RETURN_IF_ERROR(solver.Prepare());   // every stage-0 symbol must be determined by some equation
//   int64_t observed[] = {14};
//   solver.Solve(observed, values);         // values[s0] = 7; at 15: an error naming `x` dim 1
//
// Ranges are checked here as well: the error names symbol, value, bound and the input it came from.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sym/expr.h"

namespace liveshape::sym {

class SymbolSolver {
 public:
  explicit SymbolSolver(Table& table) : table_(table) {}

  // The right-hand sides of Solve come in the order of these calls.
  void AddEquation(Expr left, std::string where);

  // Chooses, once, for every symbol of stage 0 an equation that is linear in it and otherwise
  // known. A symbol that no equation gives is an error that names it, unless its range is one value.
  Status Prepare();

  // Allocates nothing unless it fails. Constants and expressions that only repeat known symbols are
  // checked, not solved. `values` has one entry a symbol; later-stage entries are left alone.
  Status Solve(std::span<const int64_t> observed, std::span<int64_t> values) const;

  size_t equation_count() const { return equations_.size(); }

 private:
  struct Equation {
    Expr left;
    std::string where;
  };
  // observed = scale * symbol + rest  =>  symbol = (observed - rest) / scale. Both are constants in
  // nearly every model; where `scale` is 0 they follow from the equation at symbol = 0 and 1.
  struct Step {
    uint32_t equation;
    uint32_t symbol;
    int64_t scale, rest;
  };

  Status SolveStep(const Step& step, int64_t observed, std::span<int64_t> values) const;

  Table& table_;
  std::vector<Equation> equations_;
  std::vector<uint32_t> fixed_;   // symbols of one value that no input tells
  std::vector<Step> steps_;       // in solving order
  std::vector<uint32_t> checks_;  // equations evaluated and compared afterwards
};

}  // namespace liveshape::sym
