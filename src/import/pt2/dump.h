// Prints what the reader saw of a `.pt2`: for people (`liveshape dump x.pt2`) and for tests (JSON).
#pragma once

#include <string>

#include "import/pt2/archive.h"

namespace liveshape::pt2 {

std::string DumpText(const Pt2Archive& archive);
std::string DumpJson(const Pt2Archive& archive);  // one line; keys in a fixed order
std::string DumpArg(const Arg& arg);  // the argument's value alone, as JSON: `[1,{"name":"s0"}]`

}  // namespace liveshape::pt2
