// Any bytes as a .pte: an error, or a program whose names and blobs lie within the file.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "import/pte/program.h"

namespace {

using namespace liveshape::pte;

std::span<const std::byte> file;

template <typename Range>
void Inside(const Range& range) {
  const auto* begin = reinterpret_cast<const std::byte*>(range.data());
  if (!range.empty() && (begin < file.data() || begin + range.size() > file.data() + file.size()))
    std::abort();
}

void Inside(const Blob& blob) {
  Inside(blob.bytes);
  if (!blob.bytes.empty() && file.data() + blob.offset != blob.bytes.data()) std::abort();
}

void Check(const Program& program) {
  for (const Blob& segment : program.segments) Inside(segment);
  for (const NamedData& named : program.named_data) {
    Inside(named.key);
    if (named.segment >= program.segments.size()) std::abort();
  }
  for (const Method& method : program.methods) {
    size_t kernels = 0, delegates = 0;
    Inside(method.name);
    for (const Operator& op : method.operators) {
      Inside(op.name);
      Inside(op.overload);
      kernels += op.calls;
    }
    for (const Delegate& delegate : method.delegates) {
      Inside(delegate.id);
      Inside(delegate.data);
      for (const CompileSpec& spec : delegate.specs) {
        Inside(spec.key);
        Inside(spec.value);
      }
      delegates += delegate.calls;
    }
    for (const Chain& chain : method.chains) {
      kernels -= chain.kernel_calls;
      delegates -= chain.delegate_calls;
    }
    if (kernels != 0 || delegates != 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> aligned(reinterpret_cast<const std::byte*>(data),
                                       reinterpret_cast<const std::byte*>(data) + size);
  file = aligned;
  auto program = ReadProgram(file);
  if (program.ok())
    Check(*program);
  else if (program.status().message().empty())
    std::abort();
  return 0;
}
