// When a channel of DRAM may take a command: the data sheet's timing rules, and nothing of scheduling.
//
//   DramState state(machine.dram);
//   state.Issue(Command::kActivate, /*bank=*/3, 100);
//   state.Earliest(Command::kRead, 3);                   // 100 + tRCD
//
// A bank's number is group + bank_groups * bank within the group, so that neighbours are of different groups.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "backends/npu/machine/machine.h"

namespace liveshape::npu {

enum class Command : uint8_t { kActivate, kPrecharge, kRead, kWrite };

class DramState {
 public:
  explicit DramState(const DramConfig& config)
      : config_(config),
        timing_(config.timing),
        group_mask_(config.bank_groups - 1),
        banks_(static_cast<size_t>(config.Banks())),
        groups_(static_cast<size_t>(config.bank_groups)) {}

  // The first clock at which `command` keeps every rule.
  int64_t Earliest(Command command, int64_t bank) const {
    const Bank& b = banks_[static_cast<size_t>(bank)];
    const Group& g = groups_[static_cast<size_t>(bank & group_mask_)];
    switch (command) {
      case Command::kActivate:
        return std::max({b.activate, g.activate, activate_, four_activates_[activates_ & 3]});
      case Command::kPrecharge: return b.precharge;
      case Command::kRead: return std::max({b.column, g.read, read_});
      case Command::kWrite: return std::max({b.column, g.write, write_});
    }
    return 0;
  }
  // All banks are precharged and have had tRP.
  int64_t EarliestRefresh() const;

  void Issue(Command command, int64_t bank, int64_t clock);
  void Refresh(int64_t clock);

  // The last clock of a burst whose command is issued at `clock`.
  int64_t DataEnd(Command command, int64_t clock) const {
    return clock + (command == Command::kRead ? timing_.tCL : timing_.tCWL) + config_.BurstClocks();
  }

 private:
  struct Bank { int64_t activate = 0, precharge = 0, column = 0; };
  struct Group { int64_t activate = 0, read = 0, write = 0; };

  DramConfig config_;
  DramTiming timing_;
  int64_t group_mask_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  int64_t activate_ = 0, read_ = 0, write_ = 0;
  std::array<int64_t, 4> four_activates_ =
      {};  // when the window that each of the last four opened closes
  uint32_t activates_ = 0;
};

}  // namespace liveshape::npu
