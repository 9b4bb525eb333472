#!/usr/bin/env python3
"""Tables for docs/methods.md from `forerun bench --json` of texts: rows are drafters, columns kinds of prompts.

    forerun bench -m M --prompts P --drafters none,lookup,auto,none --temp 0 --json | bench/texts/table.py
"""
import argparse
import json
import statistics
import sys


def label(drafter: str) -> str:
    """The name without folders: dflash:a/b/c+lookup is dflash+lookup. sam works with and without one: sam:FOLDER."""
    return "+".join("sam:FOLDER" if part.startswith("sam:") else part.split(":")[0] for part in drafter.split("+"))


def speedups(entry: dict) -> list[float]:
    return sorted(p["speedup_vs_none"] for p in entry["by_prompt"])


def kinds(entry: dict) -> dict[str, dict]:
    return entry["by_category"]


def rows(entries: list[dict]):
    """Of every drafter: name, cells "tau, times plain" by kind, the whole, and its slowest prompts."""
    for place, entry in enumerate(entries):
        again = entry["drafter"] == "none" and place > 0
        cells = [f'{k["tau"]:.2f}, {k["speedup_vs_none"]:.2f}' for k in kinds(entry).values()]
        slowest = " ".join(f"{s:.2f}" for s in speedups(entry)[:3])
        kept = "yes" if entry["identical_up_to_ties"] else "**no**"
        yield [f'`{label(entry["drafter"])}`' + (", again" if again else ""),
               f'{entry["tau"]:.2f}, **{entry["speedup_vs_none"]:.2f}**', *cells, slowest, kept]


def table(entries: list[dict]) -> str:
    head = ["drafter", "all", *kinds(entries[0]), "three slowest prompts", "plain text"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows(entries)]
    plain = entries[0]
    prompts = [p["outputs"] for p in plain["by_prompt"]]
    lines.append(f'\n{len(prompts)} prompts of {statistics.mean(prompts):.0f} tokens, rule {plain["rule"]}; '
                 f'plain decoding {plain["tok_s"]:.0f} tok/s. A cell: tokens a pass, times plain decoding.')
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="what `forerun bench --json` wrote (standard input)")
    arguments = parser.parse_args()
    try:
        with open(arguments.file, encoding="utf-8") if arguments.file else sys.stdin as source:
            entries = json.load(source)
        print(table(entries))
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        print(f"table.py: not the output of `forerun bench --json` of texts: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
