// The parts of liveshape._core, one file each; python/liveshape/_core.pyi documents what they give.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "liveshape/liveshape.h"
#include "python/bindings/errors.h"

namespace liveshape::python {

// What Python holds of an artifact; sessions share it.
struct LoadedArtifact { std::shared_ptr<const Artifact> artifact; };

// Bytes of any Python object with the buffer protocol, held until the last copy of `owner` is gone, on any thread.
struct HeldBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
HeldBytes Hold(nb::handle object);

void BindArtifact(nb::module_& module);
void BindCompile(nb::module_& module);
void BindSession(nb::module_& module);

}  // namespace liveshape::python
