# The front door. Everything here can also be done by hand: tools/setup.sh, cmake --preset, ctest --preset.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

MODEL := $(FORERUN_MODEL)
DRAFTER ?= auto
PREFIX ?= $(CURDIR)/build/install
FUZZ_SECONDS ?= 120
export FORERUN_MODEL = $(MODEL)
export FORERUN_JOBS

FORERUN := build/release/bin/forerun
MODEL_FILE = $(or $(MODEL),$$(tools/get_model.sh --path))
SOURCES = $$(git ls-files --cached --others --exclude-standard 'forerun/*.h' 'forerun/*.cpp' 'tests/*.h' 'tests/*.cpp' \
            'bench/*.h' 'bench/*.cpp' 'examples/*.cpp' 'python/*.h' 'python/*.cpp')

.PHONY: help demo build test test-asan test-tsan test-slow format format-check lint install example python wheel test-clients check-install clean distclean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  MODEL=FILE.gguf  a model of your own for the demo      FORERUN_JOBS=N  compiler jobs at a time"
	@echo "  DRAFTER=NAME     what drafts in the demo, e.g. auto, dflash:FOLDER, draft-model:FILE"

demo:  ## set up what is missing, then show exact speculative generation on this machine
	@tools/setup.sh demo
	@$(FORERUN) demo -m "$(MODEL_FILE)" --drafter "$(DRAFTER)"

build:  ## set up what is missing and build everything
	@tools/setup.sh test

test: build  ## build and run every test
	@ctest --preset release --output-on-failure -j2

test-asan:  ## base, core, formats and HTTP under the address and undefined-behaviour sanitizers
	@tools/setup.sh asan
	@FORERUN_FUZZ_SECONDS=$${FORERUN_FUZZ_SECONDS:-2} ctest --preset asan --output-on-failure -j2 -E '_NOT_BUILT$$|^(Command|Build)[.]'

test-tsan:  ## the engine's tests on several threads under the thread sanitizer
	@tools/setup.sh tsan
	@OMP_NUM_THREADS=3 TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp $${TSAN_OPTIONS:-}" \
	  build/tsan/test-bin/api_test --gtest_filter='InCompany*:Engine.*:SharedBeginnings*'

test-slow:  ## the same with FUZZ_SECONDS (120) of mutated files for each parser
	@$(MAKE) --no-print-directory test-asan FORERUN_FUZZ_SECONDS=$(FUZZ_SECONDS)

format:  ## format every source file in place
	@tools/setup.sh format
	@clang-format -i $(SOURCES)

format-check:  ## fail if a source file is not formatted
	@tools/setup.sh format
	@clang-format --dry-run -Werror $(SOURCES) || { echo 'What to do: make format'; exit 1; }

lint:  ## clang-tidy on our sources
	@tools/setup.sh lint
	@! clang-tidy --dump-config 2>&1 >/dev/null | grep . || { echo "What to do: mend .clang-tidy"; exit 1; }
	@run-clang-tidy -quiet -p build/lint -j $${FORERUN_JOBS:-$$(nproc)} '^$(CURDIR)/(forerun|bench|tests)/.*\.cpp$$' \
	  2> >(grep -v 'warnings generated' >&2)

install: build  ## install the library, its headers and the program under PREFIX (build/install)
	@cmake --install build/release --prefix "$(PREFIX)" >build/logs/install.log
	@echo "installed under $(PREFIX)"

example: install  ## build examples/ against the installed library and run it
	@{ cmake -S examples -B build/examples -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$(PREFIX)" && \
	   cmake --build build/examples; } >build/logs/example.log 2>&1 || { tail -n 20 build/logs/example.log; exit 1; }
	@build/examples/hello "$(MODEL_FILE)"
	@build/examples/bigram "$(MODEL_FILE)"

python:  ## build the Python package in build/python, run its tests and the notebook
	@tools/setup.sh python
	@build/python/bin/python -m pytest -q python/tests

test-clients:  ## ready-made clients (openai, LangChain, lm-eval, guidellm, aiperf, wrk, ...) against the server, some 8 minutes
	@tools/setup.sh clients
	@OMP_NUM_THREADS=1 python3 tests/serve/clients/clients_test.py $(FORERUN) "$(MODEL_FILE)" build/clients

wheel:  ## a Python wheel in build/wheel that runs on other x86-64 machines beside torch, and its tests
	@tools/setup.sh wheel

check-install: install  ## check what is installed: run paths, and processors without AVX-512 and AVX2 (qemu-user)
	@tools/setup.sh format
	@python3 tests/run_path_test.py "$(PREFIX)"
	@python3 tests/no_avx512_test.py "$(PREFIX)/bin/forerun"

clean:  ## remove build/ (the torch wheel in .venv and the model stay)
	@rm -rf build

distclean: clean  ## remove .venv too
	@rm -rf .venv
