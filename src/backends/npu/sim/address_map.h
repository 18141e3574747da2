// Where a byte of memory lies: channel, bank, row. Consecutive bursts of a channel go to different bank groups, since
// tCCD_L within one group is longer than a burst.
//
// With `hash`, higher address bits are XORed into channel and bank. Row-major f32 with a pitch of 8192 bytes would
// otherwise meet two of 16 channels with every 512-byte run and reach 13 % of peak.
#pragma once

#include <bit>
#include <cstdint>

#include "backends/npu/machine/machine.h"

namespace liveshape::npu {

struct DramPlace {
  uint32_t channel = 0, bank = 0;
  int64_t row = 0;
};

class AddressMap {
 public:
  explicit AddressMap(const DramConfig& config)
      : hash_(config.hash),
        burst_bits_(Log2(config.BurstBytes())),
        interleave_bits_(Log2(config.interleave_bytes) - burst_bits_),
        channel_bits_(Log2(config.channels)),
        group_bits_(Log2(config.bank_groups)),
        column_bits_(Log2(config.row_bytes) - burst_bits_),
        bank_bits_(Log2(config.banks_per_group)) {}

  int burst_bits() const { return burst_bits_; }

  // Of the burst with this number: its address divided by the bytes of a burst.
  DramPlace Of(uint64_t burst) const {
    const uint64_t upper = burst >> interleave_bits_;
    uint64_t channel = upper & Mask(channel_bits_);
    if (hash_)
      for (uint64_t rest = upper >> channel_bits_; rest != 0 && channel_bits_ != 0;
           rest >>= channel_bits_)
        channel ^= rest & Mask(channel_bits_);
    uint64_t local =
        (upper >> channel_bits_ << interleave_bits_) | (burst & Mask(interleave_bits_));
    const uint64_t group = local & Mask(group_bits_);
    local >>= group_bits_ + column_bits_;
    uint64_t bank = local & Mask(bank_bits_);
    local >>= bank_bits_;
    if (hash_) bank ^= (local ^ (local >> bank_bits_)) & Mask(bank_bits_);
    return {static_cast<uint32_t>(channel), static_cast<uint32_t>(group | bank << group_bits_),
            static_cast<int64_t>(local)};
  }

 private:
  static int Log2(int64_t n) { return std::countr_zero(static_cast<uint64_t>(n)); }
  static uint64_t Mask(int bits) { return (uint64_t{1} << bits) - 1; }

  bool hash_;
  int burst_bits_, interleave_bits_, channel_bits_, group_bits_, column_bits_, bank_bits_;
};

}  // namespace liveshape::npu
