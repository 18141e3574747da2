#include "backends/npu/sim/dram_state.h"

namespace liveshape::npu {

int64_t DramState::EarliestRefresh() const {
  int64_t clock = 0;
  for (const Bank& bank : banks_) clock = std::max(clock, bank.activate);
  return clock;
}

void DramState::Issue(Command command, int64_t bank, int64_t clock) {
  const DramTiming& t = timing_;
  const auto after = [clock](int64_t& rule, int64_t clocks) {
    rule = std::max(rule, clock + clocks);
  };
  Bank& b = banks_[static_cast<size_t>(bank)];
  Group& g = groups_[static_cast<size_t>(bank & group_mask_)];
  switch (command) {
    case Command::kActivate:
      after(b.column, t.tRCD);
      after(b.precharge, t.tRAS);
      after(b.activate, t.tRC);
      after(g.activate, t.tRRD_L);
      after(activate_, t.tRRD_S);
      four_activates_[activates_++ & 3] = clock + t.tFAW;
      break;
    case Command::kPrecharge: after(b.activate, t.tRP); break;
    case Command::kRead:
      after(b.precharge, t.tRTP);
      after(g.read, t.tCCD_L);
      after(read_, t.tCCD_S);
      after(write_, t.tRTW);
      break;
    case Command::kWrite: {
      const int64_t data = t.tCWL + config_.BurstClocks();
      after(b.precharge, data + t.tWR);
      after(g.write, t.tCCD_L);
      after(write_, t.tCCD_S);
      after(g.read, data + t.tWTR_L);
      after(read_, data + t.tWTR_S);
      break;
    }
  }
}

void DramState::Refresh(int64_t clock) {
  for (Bank& bank : banks_) bank.activate = std::max(bank.activate, clock + timing_.tRFC);
}

}  // namespace liveshape::npu
