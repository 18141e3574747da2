// Where the elements of every operand lie, as expressions. The plan keeps numbers (slots of the params block); a tile
// program is made of what they are computed from.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace liveshape::npu {

class Locations {
 public:
  Locations(const ir::Graph& graph, const plan::Plan& plan);

  // Strides and offset in elements of its storage.
  ir::Layout Of(const plan::Operand& operand) const;

 private:
  const ir::Graph& graph_;
  std::vector<ir::Layout> layouts_;        // by value
  std::vector<plan::StorageId> storages_;  // by value
};

}  // namespace liveshape::npu
