#include "backends/npu/sim/dram_channel.h"

#include <bit>

#include "base/status.h"

namespace liveshape::npu {

DramChannel::DramChannel(const DramConfig& config, int64_t cores)
    : config_(config),
      state_(config),
      banks_(static_cast<size_t>(config.Banks())),
      slots_(static_cast<size_t>(config.queue)),
      inboxes_(static_cast<size_t>(cores)),
      next_refresh_(config.timing.tREFI) {
  for (size_t i = slots_.size(); i-- > 0;) free_.push_back(static_cast<uint16_t>(i));
}

void DramChannel::Push(int64_t core, const Burst& burst) {
  Inbox& inbox = inboxes_[static_cast<size_t>(core)];
  if (inbox.size == inbox.ring.size()) {
    std::vector<Burst> larger(std::max<size_t>(inbox.ring.size() * 2, 8));
    for (size_t i = 0; i < inbox.size; ++i)
      larger[i] = inbox.ring[(inbox.first + i) & (inbox.ring.size() - 1)];
    inbox.ring = std::move(larger);
    inbox.first = 0;
  }
  inbox.ring[(inbox.first + inbox.size++) & (inbox.ring.size() - 1)] = burst;
  ++pending_;
}

int64_t DramChannel::FirstArrival(size_t* core) const {
  int64_t first = kNever;
  for (size_t c = 0; c < inboxes_.size(); ++c)
    if (inboxes_[c].size != 0 && inboxes_[c].ring[inboxes_[c].first].arrival < first) {
      first = inboxes_[c].ring[inboxes_[c].first].arrival;
      *core = c;
    }
  return first;
}

DramChannel::Event DramChannel::Take(size_t core) {
  Inbox& inbox = inboxes_[core];
  Burst burst = inbox.ring[inbox.first];
  burst.arrival = std::max(burst.arrival, slot_free_at_);
  inbox.first = (inbox.first + 1) & (inbox.ring.size() - 1);
  --inbox.size;
  const uint16_t s = free_.back();
  free_.pop_back();
  slots_[s] = {burst, order_++, kNone};
  Bank& bank = banks_[burst.bank];
  List& list = bank.waiting[burst.write];
  if (list.head == kNone)
    list.head = s;
  else
    slots_[list.tail].next = s;
  list.tail = s;
  // A bank about to serve an open row keeps its choice: it looked at older bursts.
  if (bank.slot == kNone || bank.command == Command::kActivate ||
      bank.command == Command::kPrecharge)
    bank.stale = true;
  waiting_banks_[burst.write] |= uint64_t{1} << burst.bank;
  if (waiting_[burst.write]++ == 0) since_[burst.write] = burst.arrival;
  return {Event::kTaken, burst, burst.arrival};
}

void DramChannel::ChooseDirection(int64_t clock) {
  const int64_t many = config_.queue / 2, few = config_.queue / 8;
  const bool was = writing_;
  if (writing_)
    writing_ = waiting_[1] > 0 &&
               (waiting_[0] == 0 || (waiting_[1] > few && clock - since_[0] <= kPatience));
  else
    writing_ = waiting_[1] > 0 &&
               (waiting_[0] == 0 || waiting_[1] >= many || clock - since_[1] > kPatience);
  if (was == writing_) return;
  since_[was] = clock;
  ++counters_.turnarounds;
  for (Bank& bank : banks_) bank.stale = true;
}

void DramChannel::Choose(Bank& bank, int64_t clock) {
  bank.stale = false;
  bank.slot = bank.waiting[writing_].head;
  bank.before = kNone;
  if (bank.slot == kNone) return;
  const bool impatient = clock - slots_[bank.slot].burst.arrival > kPatience;
  bank.command = bank.open_row < 0 ? Command::kActivate : Command::kPrecharge;
  uint16_t before = kNone;
  for (uint16_t s = bank.slot; s != kNone; before = s, s = slots_[s].next) {
    if (slots_[s].burst.row == bank.open_row) {
      bank.slot = s;
      bank.before = before;
      bank.command = writing_ ? Command::kWrite : Command::kRead;
      break;
    }
    if (impatient) break;
  }
  bank.arrival = slots_[bank.slot].burst.arrival;
  bank.order = slots_[bank.slot].order;
}

DramChannel::Event DramChannel::Serve(Bank& bank, uint32_t index, int64_t clock) {
  state_.Issue(bank.command, index, clock);
  const bool column = bank.command == Command::kRead || bank.command == Command::kWrite;
  if (column || config_.shared_command_bus) column_bus_ = clock + 1;
  if (!column || config_.shared_command_bus) row_bus_ = clock + 1;
  bank.stale = true;
  if (!column) {
    const bool activate = bank.command == Command::kActivate;
    bank.open_row = activate ? slots_[bank.slot].burst.row : -1;
    if (activate) ++counters_.activates;
    return {};
  }
  const uint16_t s = bank.slot;
  const Burst burst = slots_[s].burst;
  List& list = bank.waiting[burst.write];
  (bank.before == kNone ? list.head : slots_[bank.before].next) = slots_[s].next;
  if (list.tail == s) list.tail = bank.before;
  if (list.head == kNone) waiting_banks_[burst.write] &= ~(uint64_t{1} << index);
  --waiting_[burst.write];
  free_.push_back(s);
  slot_free_at_ = clock;
  --pending_;
  ++counters_.bursts;
  return {Event::kServed, burst, state_.DataEnd(bank.command, clock)};
}

void DramChannel::RefreshAll() {
  for (size_t i = 0; i < banks_.size(); ++i) {
    Bank& bank = banks_[i];
    bank.stale = true;
    if (bank.open_row < 0) continue;
    const auto index = static_cast<int64_t>(i);
    state_.Issue(Command::kPrecharge, index,
                 std::max(state_.Earliest(Command::kPrecharge, index), row_bus_));
    bank.open_row = -1;
  }
  const int64_t clock = std::max(state_.EarliestRefresh(), next_refresh_);
  state_.Refresh(clock);
  row_bus_ = clock + 1;
  if (config_.shared_command_bus) column_bus_ = clock + 1;
  next_refresh_ += config_.timing.tREFI;
  ++counters_.refreshes;
}

DramChannel::Event DramChannel::Next(int64_t until) {
  for (;;) {
    size_t core = 0;
    const int64_t arrival = free_.empty() ? kNever : FirstArrival(&core);
    // No command can come before one of the buses is free: what has arrived by then is taken without a look at banks.
    const int64_t soonest = std::min(row_bus_, column_bus_);
    if (arrival <= soonest && arrival < until && arrival < next_refresh_) return Take(core);
    int64_t best_clock = kNever, best_order = kNever;
    bool best_column = false;
    uint32_t best = 0;
    const int64_t now = std::max(row_bus_, column_bus_);
    ChooseDirection(now);
    for (uint64_t mask = waiting_banks_[writing_]; mask != 0; mask &= mask - 1) {
      const auto index = static_cast<uint32_t>(std::countr_zero(mask));
      Bank& bank = banks_[index];
      if (bank.stale) Choose(bank, now);
      const bool column = bank.command == Command::kRead || bank.command == Command::kWrite;
      const int64_t clock = std::max(
          {state_.Earliest(bank.command, index), column ? column_bus_ : row_bus_, bank.arrival});
      if (clock > best_clock) continue;
      if (clock == best_clock && (column == best_column ? bank.order > best_order : best_column))
        continue;
      best_clock = clock, best_order = bank.order, best_column = column, best = index;
    }
    const int64_t first = std::min(best_clock, arrival);
    if (first >= until) return {};
    if (next_refresh_ <= first) {
      RefreshAll();
      continue;
    }
    if (arrival <= best_clock) return Take(core);
    const Event event = Serve(banks_[best], best, best_clock);
    if (event.kind != Event::kNothing) return event;
  }
}

}  // namespace liveshape::npu
