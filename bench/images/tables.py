#!/usr/bin/env python3
"""Parallel efficiency of drafters of images by draft length, both forms of a round, as tables in Markdown.

Every run of `forerun bench` is kept as JSON in --out; runs that are there are not made again, so that an interrupted
table goes on where it was. The paper's columns are DiT-XL/2 on ImageNet, 256 x 256, guidance 1.5, 1,000 steps
(arXiv:2511.20390, table 1a): another model and other data, beside ours for the shape alone.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

PAPER = {
    "asd": {2: 1.24, 4: 1.35},
    "frozen": {2: 1.28, 4: 1.41},
    "free": {2: 1.43, 4: 2.05, 8: 2.68, 16: 3.10},
    "free (relax)": {2: 1.46, 4: 2.22, 8: 3.25, 16: 4.01, 32: 4.26},
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--forerun", default="forerun", help="the command")
    p.add_argument("-m", "--model", required=True, help="folder of the Diffusion Transformer")
    p.add_argument("--free", required=True, help="folder of its FREE drafter")
    p.add_argument("--count", type=int, default=64, help="images of each run")
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--cfg", type=float, default=1.5)
    p.add_argument("--lengths", default="2,4,8,16,32")
    p.add_argument("--forms", default="one,two", help="target passes a round: one, two")
    p.add_argument("--drafters", default="asd,frozen,free,relax")
    p.add_argument("--reuse", action="store_true", help="with guesses corrected by discarded states, as the papers' are not")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--out", type=pathlib.Path, required=True, help="folder of the runs")
    return p.parse_args()


class Table:
    def __init__(self, args):
        self.args = args
        args.out.mkdir(parents=True, exist_ok=True)
        self.suffix = "_reuse" if args.reuse else ""

    def common(self, count):
        a = self.args
        command = ["-m", a.model, "--steps", str(a.steps), "--cfg", str(a.cfg), "--count", str(count)]
        return command if a.reuse else command + ["--no-reuse"]

    def keep(self, name, command):
        """The JSON of a command, from its file if it was run before."""
        path = self.args.out / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text())
        print(" ".join(command), file=sys.stderr, flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        part = path.with_suffix(".part")
        part.write_text(done.stdout)
        os.replace(part, path)
        return json.loads(done.stdout)

    def profile(self, form):
        """Made on other images than those that are measured."""
        a = self.args
        path = a.out / f"relax_{form}_{a.steps}{self.suffix}.profile.json"
        if not path.exists():
            command = [a.forerun, "profile", *self.common(16), "-d", f"free:{a.free}", "--seed", str(a.seed + 1),
                       "-o", str(path)]
            subprocess.run(command + (["--two-calls"] if form == "two" else []), check=True, stdout=subprocess.DEVNULL)
        return str(path)

    def run(self, form, drafter, length):
        a = self.args
        name = {"free": f"free:{a.free}", "relax": f"free:{a.free}"}.get(drafter, drafter)
        command = [a.forerun, "bench", *self.common(a.count), "--drafters", name, "--drafts", str(length - 1),
                   "--seed", str(a.seed), "--no-plain", "--json"]
        if form == "two":
            command.append("--two-calls")
        if drafter == "relax":
            command += ["--rule", "relax", "--profile", self.profile(form)]
        document = self.keep(f"{form}_{drafter}_{length}_{a.count}x{a.steps}{self.suffix}", command)
        return document["results"][-1]


def main():
    args = arguments()
    table = Table(args)
    lengths = [int(x) for x in args.lengths.split(",")]
    for form in args.forms.split(","):
        calls = {"one": "One target pass a round", "two": "Two target passes a round, as the paper counts"}[form]
        print(f"\n{calls}: efficiency (acceptance of an examined draft), {args.count} images{', reusing' if args.reuse else ''}\n")
        print("| L | " + " | ".join(str(x) for x in lengths) + " |")
        print("| --- |" + " --- |" * len(lengths))
        for drafter in args.drafters.split(","):
            label = "free (relax)" if drafter == "relax" else drafter
            rows = [table.run(form, drafter, x) for x in lengths]
            print(f"| {label} | " + " | ".join(f"{r['efficiency']:.2f} ({r['acceptance']:.3f})" for r in rows) + " |")
            if form == "two":
                paper = PAPER.get(label, {})
                print(f"| the paper's | " + " | ".join(str(paper.get(x, "*")) for x in lengths) + " |", flush=True)


if __name__ == "__main__":
    main()
