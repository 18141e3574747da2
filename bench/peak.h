// What the machine can do at most, on the active ISA.
#pragma once

#include <cstdint>

namespace liveshape::cpu {

void MultiplyAdds(int64_t rounds);  // FlopsOfRound() each, from registers
double FlopsOfRound();
void ReadAll(const float* from, int64_t count);

}  // namespace liveshape::cpu
