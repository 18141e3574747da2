# Every target is one line here and one script in scripts/, which says how and why.
.DEFAULT_GOAL := help
.PHONY: help deps build executorch webgpu demo test test-all lint format fuzz soak bench check-newer clean

help:         ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

deps:         ## install what a build needs (apt); nothing when all is there
	@scripts/deps.sh build

build: deps   ## the release CLI: build/release/liveshape
	@scripts/build.sh release

executorch: deps ## the backend for ExecuTorch: python/liveshape/executorch/libliveshape_executorch.so
	@scripts/executorch.sh

webgpu: deps  ## as build, with WebGPU: wgpu-native (3.5 MB, PyPI) comes into build/deps first
	@scripts/webgpu.sh
	@scripts/build.sh release

demo: build   ## compile a bundled model and walk live shapes up and down in one session
	@scripts/demo.sh

test:         ## everything CI tests: unit, pytest, fuzzers 10 s each, asan, tsan, wasm compile
	@scripts/test.sh

test-all:     ## as test, with every library and the CLI under every sanitizer
	@scripts/test.sh --all

lint:         ## check the format of the whole tree
	@scripts/lint.sh

format:       ## repair what lint finds
	@scripts/lint.sh --fix

fuzz:         ## all fuzzers for an hour in all; make fuzz SECONDS=600: for ten minutes
	@scripts/deps.sh build test && scripts/build.sh fuzz && scripts/fuzz.sh --total $(or $(SECONDS),3600)

soak:         ## 100,000 runs over random shapes: memory must stay flat
	@scripts/deps.sh build unit && scripts/build.sh release liveshape_unit_tests && \
	  LIVESHAPE_SOAK_RUNS=100000 build/release/liveshape_unit_tests --gtest_filter='Reliability.*'

bench:        ## build and run bench/
	@scripts/bench.sh

check-newer:  ## build and test in a debootstrap of Debian 13 under build/trixie (needs root)
	@scripts/check_newer.sh

clean:        ## remove build/ (.venv stays)
	rm -rf build
