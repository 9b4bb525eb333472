#!/usr/bin/env python3
"""A corpus for the drafter sam:FOLDER out of answers of forerun distill: documents of some sources, without their prompts.

usage: answer_corpus.py --prompts PROMPTS.jsonl [--sources NAME,NAME,...] [--context 8] ANSWERS... OUT

PROMPTS.jsonl is the file that forerun distill read; --sources keeps the answers to prompts whose "source" is listed. Of a prompt its
last --context tokens stay, as the context in which an answer begins. The same input makes the same files.
"""

import argparse
import json
import os
from pathlib import Path

from token_shards import read_shard, shard, write


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", required=True)
    parser.add_argument("--sources", default="")
    parser.add_argument("--context", type=int, default=8)
    parser.add_argument("answers", nargs="+")
    parser.add_argument("out")
    args = parser.parse_args()
    with open(args.prompts, encoding="utf-8") as f:
        source_of = [json.loads(line).get("source", "") for line in f if line.strip()]
    wanted = set(args.sources.split(",")) if args.sources else set(source_of)
    documents = []
    for folder in args.answers:
        settings = json.loads(Path(folder, "distill.json").read_text())
        if settings["prompts"] != len(source_of):
            raise SystemExit(f"{folder}: made from {settings['prompts']} prompts, {args.prompts} holds {len(source_of)}")
        for path in sorted(Path(folder).glob("tokens-*.safetensors")):
            documents += [(prompt[max(0, len(prompt) - args.context):], answer)
                          for i, prompt, answer in read_shard(path) if source_of[i] in wanted and answer]
    if not documents:
        raise SystemExit("no answer is left: see --sources")
    os.makedirs(args.out, exist_ok=True)
    kept = {k: settings[k] for k in ("format", "max_tokens", "min_p", "precision", "seed", "self_temperature", "target", "target_hash",
                                     "temperature", "top_k", "top_p", "vocab", "vocabulary_hash") if k in settings}
    write(os.path.join(args.out, "tokens-00000.safetensors"), shard(documents))
    write(os.path.join(args.out, "distill.json"), (json.dumps(kept, indent=2) + "\n").encode())
    print(f"{args.out}: {len(documents)} answers, {sum(len(a) for _, a in documents)} tokens")


if __name__ == "__main__":
    main()
