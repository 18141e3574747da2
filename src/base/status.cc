#include "base/status.h"

#include <cstdio>
#include <cstdlib>

namespace liveshape {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kOutOfRange: return "out of range";
    case Code::kNotFound: return "not found";
    case Code::kUnsupported: return "unsupported";
    case Code::kDataLoss: return "bad data";
    case Code::kResourceExhausted: return "resource exhausted";
    case Code::kFailedPrecondition: return "failed precondition";
    case Code::kCancelled: return "cancelled";
    case Code::kInternal: return "internal error";
  }
  return "unknown";
}

void Panic(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "liveshape: internal error at %s:%d: %s\n", file, line, message.c_str());
  std::abort();
}

}  // namespace liveshape
