#!/usr/bin/env python3
"""What events cost in Python: tokens a second of an engine's events beside those of the command, in turns.

usage: bench/python/events.py MODEL [--forerun PROGRAM] [--tokens 256] [--repeats 7] [--threads 0] [--drafter none] [--bar 0.05]

  make python
  build/python/bin/python bench/python/events.py "$(tools/get_model.sh --path)"

The command times its rounds itself, in C++. In Python the clock runs from the first event of a text to its last, and every event is
taken: piece, token and round. Both make the same text, which is checked. A ratio is of two turns next to each other; the median
counts. Exit status 1 if Python's rate is lower by more than the bar.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import forerun

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = ("Why is the sky blue?", "Write a short poem about the sea.", "Name three uses of copper.")


def of_command(args, prompt):
    """(tokens, tokens a second)"""
    run = subprocess.run([args.forerun, "generate", "-m", args.model, "-p", prompt, "-n", str(args.tokens), "--temp", "0",
                          "--drafter", args.drafter, "--ignore-end", "--threads", str(args.threads), "--json"],
                         check=True, capture_output=True, text=True)
    result = json.loads(run.stdout)
    return result["tokens"], result["tok_s"]


def of_events(args, model, prompt):
    engine, first, events, tokens = forerun.Engine(), None, 0, None
    engine.submit(model, [{"role": "user", "content": prompt}], args.drafter, max_tokens=args.tokens, temperature=0.0,
                  ignore_end=True)
    for event in engine:
        events += 1
        first = first or time.perf_counter()
        if isinstance(event, forerun.TextFinished):
            tokens = list(event.result.tokens)
    return tokens, (len(tokens) - 1) / (time.perf_counter() - first), events


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model")
    p.add_argument("--forerun", default=ROOT / "build/release/bin/forerun")
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--repeats", type=int, default=7)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--drafter", default="none")
    p.add_argument("--bar", type=float, default=0.05)
    args = p.parse_args()
    forerun.set_threads(args.threads)
    model, ratios, rates = forerun.Model(args.model), [], []
    of_events(args, model, PROMPTS[0])  # not timed
    for turn in range(args.repeats * len(PROMPTS)):
        prompt = PROMPTS[turn % len(PROMPTS)]
        theirs, rate = of_command(args, prompt)
        ours, events_rate, events = of_events(args, model, prompt)
        if ours != theirs:
            sys.exit(f"the texts of {prompt!r} differ")
        ratios.append(events_rate / rate)
        rates.append((rate, events_rate, events / len(ours)))
    command, python, each = (statistics.median(column) for column in zip(*rates))
    ratio = statistics.median(ratios)
    print(f"command {command:.1f} tokens/s, events in Python {python:.1f} tokens/s ({each:.2f} events a token): "
          f"{ratio:.3f} times ({min(ratios):.3f} to {max(ratios):.3f} in {len(ratios)} pairs)")
    return ratio < 1.0 - args.bar


if __name__ == "__main__":
    sys.exit(main())
