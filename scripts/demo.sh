#!/usr/bin/env bash
# The main job, without torch: compiles the bundled .pt2, then walks live shapes up and down in one strict
# session and compares every result with torch's bundled goldens. `make demo` builds the CLI first.
set -euo pipefail
source "$(dirname "$0")/common.sh"

liveshape=build/release/liveshape
model=models/demo/demo.pt2
[ -x "$liveshape" ] || die "$liveshape is missing: make build"
[ -f "$model" ] || die "$model is missing: it is part of the tree; git status may tell why"

mkdir -p build/demo
say "compile $model"
"$liveshape" compile "$model" -o build/demo/demo.live
say "one session, every live shape"
"$liveshape" demo build/demo/demo.live --golden models/demo/golden
