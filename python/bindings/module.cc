#include "python/bindings/module.h"

#include "liveshape/version.h"

NB_MODULE(_core, m) {
  m.attr("__version__") = LIVESHAPE_VERSION;
  liveshape::python::BindCompile(m);
  liveshape::python::BindArtifact(m);
  liveshape::python::BindSession(m);
}
