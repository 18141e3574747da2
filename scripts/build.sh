#!/usr/bin/env bash
# Configures a preset and builds it: scripts/build.sh PRESET [TARGET...]; the default target is what
# the build preset names. Configuring each time is cheap when nothing changed, and picks up new folders.
set -euo pipefail
source "$(dirname "$0")/common.sh"

preset=$1
shift
# LS_CMAKE_ARGS: more -D flags. In CI warnings of the release compiler are errors; others may warn of more.
read -ra extra <<<"${LS_CMAKE_ARGS:-}"
if [ "${CI:-}" = true ] && [ "$preset" = release ]; then extra+=(-DLS_WERROR=ON); fi

mkdir -p build
log=build/configure-$preset.log
cmake --preset "$preset" "${extra[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
if grep -A4 'CMake Warning' "$log" >&2; then :; fi
cmake --build --preset "$preset" ${1:+--target "$@"}
