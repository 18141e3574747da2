// Machine descriptions and attribute files: YAML to structs.
//
//   auto machine = ReadMachineFile("machines/edge.yaml");
//   // machines/edge.yaml:7:10: vector.lanes is 0: should be 1 to 65536
//
// A key that is not known, is missing or comes twice, and a value that no machine can have, is an error with its line
// and column.
#pragma once

#include <string>
#include <string_view>

#include "backends/npu/machine/attributes.h"
#include "backends/npu/machine/machine.h"
#include "base/status.h"

namespace liveshape::npu {

// `where` begins the messages.
Result<Machine> ReadMachine(std::string_view yaml, std::string_view where);
Result<Machine> ReadMachineFile(const std::string& path);

Result<KernelAttributes> ReadAttributes(std::string_view yaml, std::string_view where);
Result<KernelAttributes> ReadAttributesFile(const std::string& path);

}  // namespace liveshape::npu
