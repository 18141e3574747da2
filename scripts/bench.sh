#!/usr/bin/env bash
# Builds and runs the benchmarks: bench_kernels (shares of the machine's peaks), build/release/*_bench, then
# bench/*_bench.py, which run bench_spine and bench_webgpu. They print ratios against a peer in the same run, and the
# machine. Benchmarks are no tests: nothing here fails on a number.
set -euo pipefail
source "$(dirname "$0")/common.sh"
scripts/deps.sh build test
scripts/venv.sh test
scripts/build.sh release all liveshape_benchmarks

say "$(uname -srm), $(nproc) cores,$(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2), $(date -u +%F)"
export LIVESHAPE=$PWD/build/release/liveshape
build/release/bench_kernels
for program in build/release/*_bench; do [ ! -x "$program" ] || "$program"; done
for program in bench/*_bench.py; do [ ! -e "$program" ] || .venv/bin/python "$program"; done
