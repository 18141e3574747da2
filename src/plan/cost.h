// What a planned graph costs, in closed form: FLOPs, bytes and memory as expressions over the symbols (X6).
//
//   LS_ASSIGN_OR_RETURN(plan::Plan plan, plan::MakePlan(graph, rules));
//   plan::CostModel cost = plan::MakeCostModel(graph, plan, rules);
//   sym::ToString(cost.total.flops);                          // "2048*B*S**2 + 196608*B*S"
//   LS_ASSIGN_OR_RETURN(plan::CostPoint at, cost.At(plan, values));   // values[i]: that of symbol i
//   at.total.flops;
//
// FLOPs are those of torch's FlopCounterMode: multiplications and additions of matrix products and attention,
// masked keys included, a product that the program computes twice counted once; every other op counts none. Bytes are what a step must move if it reads each element it
// depends on once and writes each result once: an expanded dim counts once, a view costs nothing, an indexed read
// counts the elements it picks, a constant what is stored of it.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace liveshape::plan {

// Of one step, or of all. `Number` is Expr in closed form, int64_t at a point.
template <typename Number>
struct Costs {
  Number flops = {};
  Number needed_flops = {};  // less than `flops` where a recognised mask hides keys
  Number bytes = {};
  // Arena bytes in use while the step runs, each slot rounded up to the alignment, scratch included. In `total`: the
  // most over all steps and after the last. It is Stats::arena_live, and the lower bound of a plan for just one live
  // shape: no placement can need less.
  Number live = {};
  Number tensors = {};  // the same without scratch; in `total` at its own peak
  Number scratch = {};  // what the step's kernel asks for besides its tensors; in `total` the most
};

struct CostPoint {
  std::vector<Costs<int64_t>> steps;
  Costs<int64_t> total;
};

struct CostModel {
  std::vector<Costs<Expr>> steps;  // as Plan::steps
  Costs<Expr> total;

  // Fails as bind and run do, with their messages, where a value is outside its range or a guard does not hold.
  Result<CostPoint> At(const Plan& plan, std::span<const int64_t> symbol_values) const;
};

// `plan` is of `graph`, by `rules`. Adds expressions to the graph's table (see Artifact::planning).
CostModel MakeCostModel(const ir::Graph& graph, const Plan& plan, const Rules& rules);

}  // namespace liveshape::plan
