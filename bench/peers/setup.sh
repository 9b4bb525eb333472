#!/usr/bin/env bash
# Builds llama.cpp (llama-cpp-python, from source) for this processor into bench/peers/.venv; compare.py runs it.
# What is in place is left alone. The build takes about 10 minutes on 2 cores.
#
# usage: bench/peers/setup.sh
#
# FORERUN_JOBS  compiler jobs at a time (default: one per core)
# CMAKE_ARGS    further options of llama.cpp's build
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/setup_lib.sh

readonly version=0.3.36
readonly venv=bench/peers/.venv
readonly python=$venv/bin/python

venv_present() { "$python" -m pip --version >/dev/null 2>&1; }
make_venv() { python3 -m venv --clear "$venv"; }

llama_present() {
  "$python" -c "import llama_cpp, sys; sys.exit(llama_cpp.__version__ != '$version')" >/dev/null 2>&1
}

build_llama() {
  # On processors with AMX this version crashes in its AMX matrix product.
  local no_amx=
  [ "$(uname -m)" != x86_64 ] || no_amx='-mno-amx-tile -mno-amx-int8 -mno-amx-bf16'
  # No cache: pip keeps wheels without regard to the options they were built with.
  CMAKE_ARGS="-DCMAKE_C_FLAGS='$no_amx' -DCMAKE_CXX_FLAGS='$no_amx' ${CMAKE_ARGS:-}" \
    CMAKE_BUILD_PARALLEL_LEVEL=${FORERUN_JOBS:-$(nproc)} \
    "$python" -m pip install --verbose --progress-bar off --no-cache-dir --no-binary llama-cpp-python \
    "llama-cpp-python==$version"
  llama_present
}

server_present() { "$python" -c "import fastapi, pydantic_settings, sse_starlette, starlette_context, uvicorn, yaml" 2>/dev/null; }
add_server() { "$python" -m pip install --no-deps --only-binary :all: --require-hashes --progress-bar off -r bench/peers/server.txt; }

if [ $# -ne 0 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0"
  exit 2
fi

mkdir -p build
exec 9>build/.peers.lock
flock -n 9 || { echo "another setup is running in this folder; waiting for it"; flock 9; }

total_steps=3
step "Python environment in $venv" peers-venv "install python3 and python3-venv, then run the same command again" \
  venv_present make_venv
step "llama-cpp-python $version from source, about 10 minutes on 2 cores" peers-llama \
  "check that pip reaches a package index and that a C++ compiler is there (tools/setup.sh demo installs one); \
if the compiler was killed, memory ran out: FORERUN_JOBS=1 bench/peers/setup.sh" llama_present build_llama
step "what its server needs" peers-server "check that pip reaches a package index, then run the same command again" \
  server_present add_server
echo "next: bench/peers/compare.py, or bench/serve/compare.py for the servers"
