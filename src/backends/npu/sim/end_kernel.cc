// The end of a kernel: its account, and the invariants that every run checks.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/npu/sim/simulator.h"

namespace liveshape::npu {
namespace {

Account Difference(Account after, const Account& before) {
  Account minus = before;
  const auto negate = [](auto&... fields) { ((fields = -fields), ...); };
  negate(minus.cycles, minus.tiles, minus.items, minus.records, minus.array_busy, minus.vector_busy,
         minus.dma_busy, minus.load_waits, minus.backpressure, minus.loaded_bytes,
         minus.stored_bytes, minus.burst_bytes, minus.activates, minus.refreshes, minus.turnarounds,
         minus.noc_bytes, minus.macs, minus.vector_work);
  for (auto& cycles : minus.array_idle) cycles = -cycles;
  for (auto& cycles : minus.vector_idle) cycles = -cycles;
  return after += minus;
}

int64_t Sum(std::span<const int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

}  // namespace

Result<KernelReport> Simulator::EndKernel(int walk_returned) {
  if (kernel_ == nullptr) return FailedPrecondition("no kernel has begun");
  const KernelView& kernel = *kernel_;
  if (status_.ok() && in_tile_)
    status_ = InvalidArgument("kernel `{}` ended inside tile {}: its barrier is missing",
                              kernel.name, tile_.tile);
  if (status_.ok() && walk_returned != 0)
    status_ = InvalidArgument(
        "the walk of kernel `{}` returned {}: -1 is a wrong number of shape_args, -2 an overflow",
        kernel.name, walk_returned);
  const auto at_work = [this] {
    return std::any_of(cores_.begin(), cores_.end(), [](const auto& core) {
      return core->tiles_in_flight() + core->tiles_waiting() > 0;
    });
  };
  while (status_.ok() && at_work()) status_ = Step();
  if (!status_.ok()) return status_;

  if (variant_) {  // else it walked no tile: nothing to launch
    end_ = launch_ + machine_.kernel_start_cycles;
    for (const auto& core : cores_) end_ = std::max(end_, core->last_completion());
    for (auto& core : cores_) core->End(end_);
  }
  Account account = Difference(Counted(), before_);
  account += work_;
  account.cycles = end_ - launch_;
  kernel_ = nullptr;
  LS_RETURN_IF_ERROR(Check(account).Prefixed(fmt::format("kernel `{}`", kernel.name)));
  return KernelReport{std::string(kernel.name), account, scratchpad_bytes_, costs_->samples(),
                      costs_->Explain()};
}

Status Simulator::Check(const Account& account) const {
  LS_RETURN_IF_ERROR(costs_->CheckSamples());
  const double cycles = static_cast<double>(account.cycles);
  const double arrays =
      static_cast<double>(account.macs) / static_cast<double>(machine_.PeakMacsPerCycle());
  const double lanes = static_cast<double>(account.vector_work) /
                       static_cast<double>(machine_.vector.lanes * machine_.cores);
  const double bandwidth = static_cast<double>(account.burst_bytes) / machine_.PeakBytesPerCycle();
  if (cycles < std::floor(std::max({arrays, lanes, bandwidth})))
    return Internal(
        "{} cycles are fewer than the {:.0f} of its multiply-adds, the {:.0f} of its vector "
        "operations or the {:.0f} of its bytes at peak",
        account.cycles, arrays, lanes, bandwidth);
  const int64_t all = account.cycles * machine_.cores;
  if (account.array_busy + Sum(account.array_idle) != all ||
      account.vector_busy + Sum(account.vector_idle) != all)
    return Internal("busy and idle cycles do not add up: arrays {} + {}, lanes {} + {}, of {}",
                    account.array_busy, Sum(account.array_idle), account.vector_busy,
                    Sum(account.vector_idle), all);
  int64_t asked = 0, moved = 0, sent = 0;
  for (const auto& core : cores_) {
    const Core::Counters& counters = core->counters();
    asked += counters.asked_bytes;
    moved += counters.loaded_bytes + counters.stored_bytes;
    sent += counters.bursts;
  }
  if (asked != moved) return Internal("{} bytes were asked for, {} moved", asked, moved);
  const int64_t served = memory_.Counters().bursts;
  if (sent != served) return Internal("{} bursts were sent, memory served {}", sent, served);
  return {};
}

}  // namespace liveshape::npu
