// Where the values of a program lie between its steps.
#pragma once

#include "ops/pointwise/cpu_program.h"

namespace liveshape::cpu::pw {

// Sets each step's register, registers_of, registers, register_bytes and direct.
void AssignRegisters(Program& program);

}  // namespace liveshape::cpu::pw
