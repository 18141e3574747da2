// What a compile tells, for the CLI and for Python.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "compile/compile.h"

namespace liveshape::cli {

Result<ir::Encoding> ParseQuant(std::string_view quant);  // "", "q8", "q4"

struct QuantisedTotal { size_t before = 0, after = 0; };
QuantisedTotal TotalOf(const CompileReport& report);

// The one object that `compile --json` prints.
std::string CompileJson(const std::string& input, const std::string& output,
                        const std::string& quant, const CompileReport& report);

}  // namespace liveshape::cli
