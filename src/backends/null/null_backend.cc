// Plans and binds, computes nothing: shapes, plans and the session can be tested anywhere.
#include "liveshape/liveshape.h"
#include "runtime/backend.h"

namespace liveshape {
namespace {

class NullBackend : public Backend {
 public:
  const char* name() const override { return "null"; }
  bool computes() const override { return false; }
  plan::Rules rules() const override { return {}; }
  Status Load(const ir::Graph&, const plan::Plan&) override { return {}; }
  Status Run(const RunContext&, size_t, size_t, size_t*) override { return {}; }
};

}  // namespace

BackendPtr MakeNullBackend() { return std::make_unique<NullBackend>(); }

}  // namespace liveshape
