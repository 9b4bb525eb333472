#!/usr/bin/env python3
"""Greedy answers to prompts by forerun's drafters and by llama.cpp, plain and with n-gram drafts: tokens a second.

  bench/peers/answers.py --prompts prompts.jsonl --drafters none,lookup,dflash:DRAFTER+lookup
  bench/peers/answers.py --prompts prompts.jsonl --rounds 1 -n 64          a first look

forerun computes in int8, its drafts as long as its controller finds they pay. llama.cpp runs the file as it is and as the
types of --types, each plain and with the n-gram lookup of its Python package. Contestants take turns; what counts is the
time behind the prompt's pass, drafting included, all tokens over all seconds. Texts differ between the engines: the weights
differ in type. Prompts are put into the file's chat format by both.

Needs nothing but Python 3.10 and what setup.sh made. Exit status: 0 done, 1 failed, 2 misuse, 130 interrupted.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

from compare import HERE, ROOT, WORKER, check, made_file, say, whole
from process import Failure, run, said_settings


def ours(args):
    """{drafter: tokens a second}, one turn of forerun."""
    out, _ = run([args.forerun, "bench", "-m", args.model, "--precision", args.precision, "--threads", args.threads,
                  "--drafters", args.drafters, "--prompts", args.prompts, "-n", args.max_tokens, "--temp", 0, "--json"])
    return {f"forerun {r['drafter']}": (r["tok_s"], r["tau"]) for r in json.loads(out)}


def theirs(args, kind, file, drafts):
    out, _ = run([args.python, WORKER, "--quiet", "generate", file, "--prompts", args.prompts, "-n", args.max_tokens,
                  "--drafts", drafts, "--threads", args.threads])
    answers = json.loads(out)["answers"]
    total = lambda key: sum(a[key] for a in answers)
    # The first token of an answer comes out of the prompt's pass.
    tokens = total("tokens") - len(answers)
    return {f"llama.cpp {kind}{', n-gram drafts' if drafts else ''}": (tokens / total("seconds"),
                                                                       tokens / max(1, total("rounds")))}


def files_of(args):
    files = {run([args.python, WORKER, "--quiet", "type", args.model])[0].strip(): args.model}
    for kind in args.types:
        files.setdefault(kind, None)
    return {kind: file or made_file(args, kind) for kind, file in sorted(files.items())}


def one_round(args, files):
    out = ours(args)
    for kind, file in files.items():
        for drafts in (0, args.drafts):
            say(f"llama.cpp {kind}, {drafts} drafts", passing=True)
            out |= theirs(args, kind, file, drafts)
    return out


def report(rounds):
    names = list(rounds[0])
    rivals = [n for n in names if n.startswith("llama.cpp")]
    best = max(rivals, key=lambda n: statistics.median(r[n][0] for r in rounds))
    print(f"{'':36} {'tok/s':>7} {'tau':>5}   over {best}")
    for name in names:
        speed = statistics.median(r[name][0] for r in rounds)
        # Of each round the fastest rival of that round.
        ratios = [r[name][0] / max(r[n][0] for n in rivals) for r in rounds]
        print(f"{name:36} {speed:7.1f} {rounds[0][name][1]:5.2f}   {statistics.median(ratios):.2f}"
              f" ({min(ratios):.2f} to {max(ratios):.2f})")


def parse():
    cache = os.environ.get("FORERUN_MODEL_CACHE") or pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "forerun")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", type=pathlib.Path, help="GGUF file (the one of tools/get_model.sh)")
    p.add_argument("--prompts", type=pathlib.Path, required=True, help='JSON lines with a "prompt" each')
    p.add_argument("--drafters", default="none,lookup", help="of forerun, comma-separated (%(default)s)")
    p.add_argument("-n", "--max-tokens", type=whole, default=128, help="of an answer (%(default)s)")
    p.add_argument("--drafts", type=whole, default=10, help="of llama.cpp's lookup, its default (%(default)s)")
    p.add_argument("--types", type=lambda s: [x for x in s.split(",") if x], default=["Q4_0", "Q8_0"],
                   help="types to make for llama.cpp besides the file's own (Q4_0,Q8_0)")
    p.add_argument("--precision", default="int8", help="what forerun computes in (%(default)s)")
    p.add_argument("--threads", type=whole, default=len(os.sched_getaffinity(0)), help="of both (%(default)s)")
    p.add_argument("--rounds", type=whole, default=3, help="turns of each contestant (%(default)s)")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every number there too")
    p.add_argument("--forerun", type=pathlib.Path, default=ROOT / "build/release/bin/forerun")
    p.add_argument("--python", type=pathlib.Path, default=HERE / ".venv/bin/python")
    p.add_argument("--cache", type=pathlib.Path, default=pathlib.Path(cache, "peers"))
    return p.parse_args()


def main():
    args, rounds, status = parse(), [], 0
    try:
        check(args)
        if not args.prompts.is_file():
            raise Failure(f"no prompts at {args.prompts}")
        files = files_of(args)
        for i in range(args.rounds):
            say(f"round {i + 1} of {args.rounds}")
            rounds.append(one_round(args, files))
    except Failure as failure:
        say(f"answers: {failure}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; what follows holds the rounds that were done")
        status = 130
    if rounds:
        report(rounds)
        if said_settings():
            print(said_settings())
        if args.json:
            args.json.write_text(json.dumps(rounds, indent=2) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
