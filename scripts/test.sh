#!/usr/bin/env bash
# All tests, each phase timed. A failing phase does not hide the later ones; the exit status tells.
#   scripts/test.sh         what CI runs: sanitizers on the libraries that LS_TEST_LIBRARIES names in their presets
#   scripts/test.sh --all   sanitizers on every library, and pytest once more with the ASan CLI
set -euo pipefail
source "$(dirname "$0")/common.sh"

everything=false
[ "${1:-}" != --all ] || everything=true
if $everything; then export LS_CMAKE_ARGS="${LS_CMAKE_ARGS:-} -DLS_TEST_LIBRARIES=all"; fi
[ -n "${LS_PHASES:-}" ] || rm -f "$phases"

# A crash in a sanitizer build must show a stack with names, and no finding may be survived.
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1 ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer

ctest_in() { phase "$1 tests" ctest --test-dir "build/$2" --output-on-failure --no-tests=error || true; }

phase "packages" scripts/deps.sh build test || exit 1
phase "python environment" scripts/venv.sh test || exit 1
phase "wgpu-native" scripts/webgpu.sh || exit 1

if phase "build release" scripts/build.sh release all liveshape_tests liveshape_benchmarks; then
  ctest_in unit release
  phase "build executorch" scripts/executorch.sh executorch_run_module || true  # tests/executorch fail without it
  LIVESHAPE=$PWD/build/release/liveshape phase "pytest" .venv/bin/python -m pytest || true
fi
# asan and fuzz are two names of one binary folder.
if phase "build asan, fuzzers" scripts/build.sh asan liveshape_tests fuzzers; then
  ctest_in asan asan
  phase "fuzz" scripts/fuzz.sh 10 || true
fi
if phase "build tsan" scripts/build.sh tsan liveshape_tests; then
  ctest_in tsan tsan
fi
phase "wasm compile" scripts/build.sh wasm || true

if $everything && phase "build asan, CLI" scripts/build.sh asan; then
  LIVESHAPE=$PWD/build/asan/liveshape phase "pytest asan" .venv/bin/python -m pytest || true
fi

[ -n "${LS_PHASES:-}" ] || phase_table
[ ${#failed_phases[@]} = 0 ] || die "failed: $(printf '%s; ' "${failed_phases[@]}")"
