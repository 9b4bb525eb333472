#!/usr/bin/env python3
"""Runs llama.cpp beside forerun on one GGUF file and prints the ratios of their times.

  bench/peers/setup.sh                              once: builds llama.cpp, about 10 minutes
  bench/peers/compare.py                            the demo model, 5 rounds
  bench/peers/compare.py --rounds 1 --repeats 3     a first look
  bench/peers/compare.py --verify 4,8,16,32 --json result.json
  bench/peers/compare.py -m model.gguf --threads 4 --prefixes 200,4000

A pass is one call of the model over M tokens after a prefix, with logits for each of them: M = 1 is plain decoding,
M > 1 is what checking a draft of M - 1 tokens costs. forerun computes in int8. llama.cpp runs the file as it is and as
the types of --types, made from it once and kept in the cache. Contestants take turns, one process for each measurement,
which warms up and takes the median of its passes; the table shows medians of the rounds. The ratio is llama.cpp's time
over forerun's: above 1 forerun is faster. bench/peers/README.md says what is not compared.

Needs nothing but Python 3.10 and what setup.sh made. Exit status: 0 done, 1 failed, 2 misuse, 130 interrupted.
"""

import argparse
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from process import ATTEMPTS, Failure, run, run_quietly, settings
from table import FOOTNOTES, heading, rows_of_table, table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORKER = HERE / "llama_cpp_worker.py"


@dataclasses.dataclass(frozen=True)
class Case:
    """One shape of a pass: `rows` tokens after `prefix` others."""

    kind: str  # decode, verify or prefill
    rows: int
    prefix: int

    def __str__(self):
        return f"{self.kind} {self.rows} after {self.prefix}" if self.prefix else f"{self.kind} {self.rows}"


# --- contestants -----------------------------------------------------------------------------------------------------


class Forerun:
    label = "forerun"

    def __init__(self, args):
        self.args = args
        self.note = {}

    def measure(self, case):
        """Milliseconds of a pass with logits for all its rows: {"all": ms}."""
        a = self.args
        result = run_quietly(
            [a.forerun, "cost", "-m", a.model, "--precision", a.precision, "--prefix", case.prefix, "--rows", case.rows,
             "--repeats", a.repeats, "--threads", a.threads, "--json"], a.busy, a.wait)
        self.note = {k: result[k] for k in ("cpu", "precision", "weight_bytes")}
        return {"all": result["ms"][str(case.rows)]}, result["others"]


class LlamaCpp:
    def __init__(self, args, label, model):
        self.args, self.label, self.model = args, label, model
        self.note = {}

    def measure(self, case):
        """The same, and with logits for the last row alone: {"all": ms, "last": ms}."""
        a = self.args
        result = run_quietly(
            [a.python, WORKER, "--quiet", "cost", self.model, "--prefix", case.prefix, "--rows", case.rows,
             "--logits", "all,last" if case.rows > 1 else "all", "--repeats", a.repeats, "--threads", a.threads,
             "--ctx", a.ctx, "--flash-attn", a.flash_attn], a.busy, a.wait)
        self.note = {k: result[k] for k in ("package", "llama_cpp", "features", "weight_bytes", "n_ctx", "n_batch",
                                            "flash_attn")}
        return {k: v[str(case.rows)] for k, v in result["ms"].items()}, result["others"]


def made_file(args, kind):
    """`args.model` as a file of another type, out of the cache or made now."""
    stat = args.model.stat()
    key = hashlib.sha256(f"{args.model.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:8]
    out = args.cache / f"{args.model.stem}.{key}.as-{kind}.gguf"
    if not out.is_file():
        say(f"making {out}")
        out.parent.mkdir(parents=True, exist_ok=True)
        run([args.python, WORKER, "--quiet", "quantize", args.model, out, "--type", kind])
    return out


def contestants(args):
    files = {run([args.python, WORKER, "--quiet", "type", args.model])[0].strip(): args.model}
    for kind in args.types:
        if kind not in files:
            files[kind] = made_file(args, kind)
    return [Forerun(args)] + [LlamaCpp(args, kind, files[kind]) for kind in sorted(files)]


# --- rounds ----------------------------------------------------------------------------------------------------------


def say(text, passing=False):
    """Progress, on standard error. What is passing shows on a terminal only, until the next call."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="" if passing else "\n", file=sys.stderr, flush=True)
    elif not passing:
        print(text, file=sys.stderr, flush=True)


def cases(args):
    out = []
    for prefix in args.prefixes:
        out.append(Case("decode", 1, prefix))
        out += [Case("verify", m, prefix) for m in args.verify]
    return out + ([Case("prefill", args.prefill, 0)] if args.prefill else [])


def measure_rounds(args, players, times, others):
    """Adds a number to every times[case][label][logits] in each round. Contestants alternate within a case, so that a
    slow minute of the machine meets all of them."""
    start = time.monotonic()
    for index in range(args.rounds):
        measured = []
        for case in cases(args):
            for player in players:
                say(f"round {index + 1} of {args.rounds}: {case}, {player.label}", passing=True)
                ms, share = player.measure(case)
                others.append(share)
                measured += [(case, player.label, logits, value) for logits, value in ms.items()]
        for case, label, logits, value in measured:  # whole rounds only: ratios pair numbers of one round
            times.setdefault(case, {}).setdefault(label, {}).setdefault(logits, []).append(value)
        say(f"round {index + 1} of {args.rounds} done, {time.monotonic() - start:.0f} s")


# --- report ----------------------------------------------------------------------------------------------------------


def describe(args, players, others, load_before):
    ours, theirs = players[0], players[1:]
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
        "cpu": ours.note["cpu"],
        "threads": args.threads,
        "load_before": load_before,
        "load_after": os.getloadavg()[0],
        "others": {"median": statistics.median(others), "most": max(others), "limit": args.busy,
                   "measurements": len(others), "disturbed": sum(x > args.busy for x in others)},
        "forerun": {"version": run([args.forerun, "--version"])[0].strip(), **ours.note},
        "llama.cpp": {p.label: p.note for p in theirs},
        "model": args.model.name,
        "repeats": args.repeats,
        "environment": settings(),
    }


def report(args, players, times, others, load_before):
    labels = [p.label for p in players[1:]]
    about = describe(args, players, others, load_before)
    rows = rows_of_table(times, labels)
    rounds = len(rows[0]["rounds"]["forerun"])
    print("\n".join([*heading(about, rounds), "", *table(rows, labels), *FOOTNOTES]))
    if about["others"]["disturbed"] > len(others) / 5:
        print("\nMany measurements were disturbed; llama.cpp suffers far more from it: measure again in a quiet hour.")
    if args.json:
        args.json.write_text(json.dumps({"about": about, "rows": rows}, indent=2) + "\n")


# --- command line ----------------------------------------------------------------------------------------------------


def whole(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: starts at 1")
    return value


def wholes(text):
    return [whole(x) for x in text.split(",") if x]


def parse():
    default_cache = os.environ.get("FORERUN_MODEL_CACHE") or pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "forerun")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", type=pathlib.Path, help="GGUF file (the one of tools/get_model.sh)")
    p.add_argument("--types", type=lambda s: [x for x in s.split(",") if x], default=["Q4_0", "Q8_0"],
                   help="types to make from it for llama.cpp besides its own, comma-separated (Q4_0,Q8_0)")
    p.add_argument("--precision", default="int8", help="what forerun computes in (%(default)s)")
    p.add_argument("--threads", type=whole, default=len(os.sched_getaffinity(0)), help="of both (%(default)s)")
    p.add_argument("--prefixes", type=wholes, default=[200, 1500], help="tokens before those timed (200,1500)")
    p.add_argument("--verify", type=wholes, default=[16], help="sizes M of a verifying pass (16)")
    p.add_argument("--prefill", type=int, default=512,
                   help="tokens of a prompt, at most 512; 0 leaves it out (%(default)s)")
    p.add_argument("--flash-attn", choices=["auto", "on", "off"], default="auto",
                   help="of llama.cpp; off can be faster for M > 1 after a long prefix (%(default)s, its own default)")
    p.add_argument("--rounds", type=whole, default=5, help="turns of each contestant (%(default)s)")
    p.add_argument("--repeats", type=whole, default=5,
                   help="passes of a measurement; their median counts (%(default)s)")
    p.add_argument("--busy", type=float, default=0.1,
                   help="share of the CPUs that other work may take; a measurement with more is made again, "
                   f"{ATTEMPTS} times in all, and the least disturbed counts (%(default)s)")
    p.add_argument("--wait", type=float, default=60.0, metavar="SECONDS",
                   help="how long to wait for other work to end before a measurement (%(default)s)")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every number there too")
    p.add_argument("--forerun", type=pathlib.Path, default=ROOT / "build/release/bin/forerun",
                   help="the program (build/release/bin/forerun)")
    p.add_argument("--python", type=pathlib.Path, default=HERE / ".venv/bin/python",
                   help="a Python that has llama_cpp (bench/peers/.venv/bin/python)")
    p.add_argument("--cache", type=pathlib.Path, default=pathlib.Path(default_cache, "peers"),
                   help="where files of other types are kept (%(default)s)")
    args = p.parse_args()
    if not 0 <= args.prefill <= 512:
        p.error("--prefill: from 0 to 512, what llama.cpp takes in one pass here")
    if max(args.verify, default=1) > 512:
        p.error("--verify: at most 512, what llama.cpp takes in one pass here")
    if args.json and not args.json.resolve().parent.is_dir():
        p.error(f"--json: no folder {args.json.resolve().parent}")
    # The same room in every measurement of llama.cpp: the cache is laid out by it.
    args.ctx = max([*(n + max(args.verify, default=1) for n in args.prefixes), args.prefill]) + 64
    return args


def check(args):
    """Says what to run when something is missing."""
    if not os.access(args.forerun, os.X_OK):
        raise Failure(f"no program at {args.forerun}; build it: make build (or give --forerun FILE)")
    if not os.access(args.python, os.X_OK):
        raise Failure(f"no {args.python}; build llama.cpp first: bench/peers/setup.sh (about 10 minutes)")
    if subprocess.run([args.python, "-c", "import llama_cpp"], capture_output=True).returncode:
        raise Failure(f"{args.python} cannot import llama_cpp; run bench/peers/setup.sh again")
    if not args.model:
        args.model = pathlib.Path(run([ROOT / "tools/get_model.sh", "--path"])[0].strip())
        if not args.model.is_file():
            raise Failure("the demo model is not there; fetch it: tools/get_model.sh (or give -m FILE.gguf)")
    if not args.model.is_file():
        raise Failure(f"no GGUF file at {args.model}")


def main():
    args = parse()
    times, others, players, load_before = {}, [], [], os.getloadavg()[0]
    status = 0
    try:
        check(args)
        players = contestants(args)
        measure_rounds(args, players, times, others)
    except Failure as failure:
        say(f"compare: {failure}")
        return 1
    except KeyboardInterrupt:
        say("interrupted" + ("; the table holds the rounds that were done" if times else ""))
        status = 130
    if not times:
        return status
    report(args, players, times, others, load_before)
    return status


if __name__ == "__main__":
    sys.exit(main())
