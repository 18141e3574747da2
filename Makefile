# Every target is one line here and one script in scripts/, which says how and why.
.DEFAULT_GOAL := help
.PHONY: help deps build demo test test-all lint format fuzz bench check-newer clean

help:         ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

deps:         ## install what a build needs (apt); nothing when all is there
	@scripts/deps.sh build

build: deps   ## the release CLI: build/release/liveshape
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

fuzz:         ## fuzz longer: make fuzz SECONDS=600
	@scripts/deps.sh build test && scripts/build.sh fuzz && scripts/fuzz.sh $(or $(SECONDS),300)

bench:        ## build and run bench/
	@scripts/bench.sh

check-newer:  ## build and test in a debootstrap of Debian 13 under build/trixie (needs root)
	@scripts/check_newer.sh

clean:        ## remove build/ (.venv stays)
	rm -rf build
