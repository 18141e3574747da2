// What the machine can do at most, on the active ISA: by loops that do nothing else.
//
//   ThreadPool pool(2);
//   const cpu::MachinePeak peak = cpu::MeasurePeak(pool);      // 0.1 s
//   const double share = (flops / seconds) / peak.flops;
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace liveshape::cpu {

struct MachinePeak {
  double flops = 0;  // f32 multiply-adds a second, two each
  double bytes = 0;  // read from memory a second
  int threads = 0;
};
MachinePeak MeasurePeak(ThreadPool& pool);

void MultiplyAdds(int64_t rounds);  // FlopsOfRound() each, from registers
double FlopsOfRound();
void ReadAll(const float* from, int64_t count);

}  // namespace liveshape::cpu
