// Steps that a backend runs together, at the place of the last of them: whether what they read is still there.
//
//   const plan::Step* steps[] = {&product, &add};        // in order; others may lie between
//   if (plan::ReadsSurvive(plan, steps)) ...
//
// A slot keeps its bytes until its last_step, which is Rules::linger steps after its last read. What remains are steps that
// write a storage again: a state, or a slot taken over. All of this follows from the order of the steps, and nothing from
// where slots came to lie, so it does not depend on sizes.
#pragma once

#include <span>

#include "plan/plan.h"

namespace liveshape::plan {

bool ReadsSurvive(const Plan& plan, std::span<const Step* const> steps);

}  // namespace liveshape::plan
