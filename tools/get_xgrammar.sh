#!/usr/bin/env bash
# Puts the sources of xgrammar (Apache-2.0), which holds answers to a grammar, into .venv/src/xgrammar and prints the folder.
# They are the source package of the Python package; nothing of it is run, and pip checks its hash.
#
# usage: tools/get_xgrammar.sh          fetches them unless they are there
#        tools/get_xgrammar.sh --check  exit status 0 if they are there; fetches nothing
set -euo pipefail
cd "$(dirname "$0")/.."

# The hash of the package is the mark that all of it was unpacked.
folder=$PWD/.venv/src/xgrammar
hash=$(sed -n 's/.*--hash=sha256:\([0-9a-f]\{64\}\).*/\1/p' tools/xgrammar.txt)
in_place() { [ "$(cat "$folder/.sha256" 2>/dev/null)" = "$hash" ]; }

case ${1:-} in
  --check) in_place; exit ;;
  "") ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
if in_place; then
  echo "$folder"
  exit
fi

mkdir -p .venv/src
work=$(mktemp -d .venv/src/.download.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# pip asks a source package's builder for its name and version. The builder's place is taken by a few lines that copy the
# answer out of the package, so that neither a builder nor CMake is installed.
PYTHONPATH=$PWD/tools/sdist_metadata .venv/bin/python -m pip download --no-deps --no-binary xgrammar --no-build-isolation \
  --require-hashes --progress-bar off -d "$work" -r tools/xgrammar.txt
name=$(basename "$work"/xgrammar-*.tar.gz .tar.gz)
mkdir "$work/sources"
tar -xzf "$work/$name.tar.gz" -C "$work/sources" --strip-components=1 --no-same-owner --wildcards "$name/cpp/*" \
  "$name/include/*" "$name/3rdparty/picojson/*" "$name/3rdparty/dlpack/include/*" "$name/LICENSE" "$name/NOTICE"
echo "$hash" >"$work/sources/.sha256"
rm -rf "$folder"
mv "$work/sources" "$folder"
echo "$folder"
