// Who waits for whom, asked when nothing moves any more.
//
//   WaitGraph waits;
//   waits.Add("load of `a` (tile 3)", "matmul (tile 2)");
//   waits.Add("matmul (tile 2)", "load of `a` (tile 3)");
//   waits.Cycle();     // "load of `a` (tile 3) waits for matmul (tile 2), which waits for load of `a` (tile 3)"
#pragma once

#include <map>
#include <string>
#include <vector>

namespace liveshape::npu {

class WaitGraph {
 public:
  void Add(std::string who, std::string for_whom) {
    waits_[std::move(who)].push_back(std::move(for_whom));
  }
  // A cycle of waits; where there is none, a chain that ends at something that waits for nothing. Empty: nobody waits.
  std::string Cycle() const;

 private:
  std::map<std::string, std::vector<std::string>> waits_;
};

}  // namespace liveshape::npu
