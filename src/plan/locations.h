// Where the elements of every operand lie, as expressions. The plan keeps numbers (slots of the params block); this is
// what they are computed from, for backends that generate code: tile programs are made of it, and a shader reads by
// vectors where it says that rows begin at one.
//
//   const plan::Locations locations(graph, plan);
//   locations.Of(step.inputs[0]).strides;
#pragma once

#include <vector>

#include "plan/plan.h"

namespace liveshape::plan {

class Locations {
 public:
  Locations(const ir::Graph& graph, const Plan& plan);

  // Strides and offset in elements of its storage.
  ir::Layout Of(const Operand& operand) const;

 private:
  const ir::Graph& graph_;
  std::vector<ir::Layout> layouts_;  // by value
  std::vector<StorageId> storages_;  // by value
};

}  // namespace liveshape::plan
