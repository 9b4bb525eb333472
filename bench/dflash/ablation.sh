#!/usr/bin/env bash
# What each part of a DFlash drafter is worth: short equal training runs that differ in one thing, and the held-out figures
# of each. Runs that are done are not made again; one that was interrupted goes on.
#
# usage: bench/dflash/ablation.sh MODEL DATA OUT [STEPS]
#        MODEL  the target     DATA  a folder of forerun distill     OUT  takes a folder a run, and the target's states
set -euo pipefail

if [ $# -lt 3 ]; then sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; fi
readonly model=$1 data=$2 out=$3 steps=${4:-200}
forerun=${FORERUN:-$(cd "$(dirname "$0")/../.." && pwd)/build/release/bin/forerun}
mkdir -p "$out"

# name, then what differs from the default
runs=(
  "default"
  "layers-1 --layers 1"
  "layers-4 --layers 4"
  "block-16 --block 16"
  "block-5 --block 5"
  "no-markov --markov 0 --no-confidence"
  "no-slot-state --no-slot-state"
  "conv --conv"
  "selector --selector 64"
  "dflash2 --conv --selector 64"
  "gated --markov-head gated"
  "random-start --random"
  "adamw --lr 1e-3"
  "token-loss --distill 0"
)

for run in "${runs[@]}"; do
  read -r name differs <<<"$run"
  optimizer="--muon --lr 2e-3"
  [ "$name" = adamw ] && optimizer=""
  # shellcheck disable=SC2086  # words are meant to be split
  "$forerun" train dflash --target "$model" --data "$data" --out "$out/$name" --steps "$steps" --batch 8 \
    --evaluate-steps "$((steps / 4))" --held-out 0.01 --state-store "$out/states.bin" $optimizer $differs
done

python3 - "$out" "${runs[@]}" <<'PY'
import json, sys
out, runs = sys.argv[1], sys.argv[2:]
print(f"{'run':16}  held-out loss, share of right first drafts, tau after each quarter of the steps")
for run in runs:
    name = run.split()[0]
    lines = [json.loads(line) for line in open(f"{out}/{name}/log.jsonl")]
    held = [h["held_out"] for h in lines if "held_out" in h and h["held_out"]["step"] > 0]
    print(f"{name:16}  " + "   ".join(
        f"{h['loss']:.3f} {h['figures']['first']:.3f} {h['figures']['tau']:.3f}" for h in held))
PY
