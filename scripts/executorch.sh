#!/usr/bin/env bash
# Builds the ExecuTorch backend (scripts/executorch.sh [TARGET...]: and these) and puts it where `import liveshape.executorch` looks. It is compiled against the
# executorch of PYTHON, or else of .venv, since headers and library must be those of the runtime that loads it.
set -euo pipefail
source "$(dirname "$0")/common.sh"

if [ -z "${PYTHON:-}" ]; then
  scripts/venv.sh test
  PYTHON=.venv/bin/python
fi
root=$("$PYTHON" -c 'import importlib.util as u; print(u.find_spec("executorch").submodule_search_locations[0])') ||
  die "$PYTHON has no executorch: pip install executorch==1.5.1"
LS_CMAKE_ARGS="${LS_CMAKE_ARGS:-} -DLS_EXECUTORCH=ON -Dexecutorch_DIR=$root/share/cmake" \
  scripts/build.sh release liveshape_executorch "$@"
install -m 755 build/release/src/executorch/libliveshape_executorch.so python/liveshape/executorch/
