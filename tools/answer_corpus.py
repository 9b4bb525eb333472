#!/usr/bin/env python3
"""A corpus for the drafter sam:FOLDER out of answers of forerun distill: documents of some sources, without their prompts.

usage: answer_corpus.py [--prompts PROMPTS.jsonl [--sources NAME,NAME,...]] [--context 8] ANSWERS... OUT

PROMPTS.jsonl is the file that forerun distill read; --sources keeps the answers to prompts whose "source" is listed. Folders of prompts that
the model wrote itself, and corpora of this tool, are kept whole. Of a prompt its last --context tokens stay, as the context in which an answer
begins. The same input and OUT make the same files, each of at most 8,000,000 tokens (34 MB). Answers that are equal, with an equal context, are kept once.
A corpus of this tool that OUT holds already stays; what it lacks, as cut with the same --context, goes into further files.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path

from token_shards import read_shard, shard, write


MOST_TOKENS = 8_000_000  # of a file
KEPT = ("format", "max_tokens", "min_p", "precision", "seed", "self_temperature", "target", "target_hash", "temperature", "top_k", "top_p", "vocab",
        "vocabulary_hash")


def answers_of(folder, settings, source_of, wanted):
    """(prompt, answer) of the answers that are kept."""
    prompts = settings.get("prompts", 0)
    if prompts not in (0, len(source_of)):
        raise SystemExit(f"{folder}: made from {prompts} prompts, --prompts holds {len(source_of)}")
    for path in sorted(Path(folder).glob("tokens-*.safetensors")):
        for i, prompt, answer in read_shard(path):
            # The prompts behind those of the file are the model's own.
            if answer and (i >= prompts or source_of[i] in wanted):
                yield prompt, answer


def key_of(prompt, answer):
    return hashlib.blake2b(prompt.tobytes() + b"|" + answer.tobytes(), digest_size=16).digest()


def once(documents, seen):
    """Of equal documents the first, if it is not in `seen`."""
    for prompt, answer in documents:
        key = key_of(prompt, answer)
        if key not in seen:
            seen.add(key)
            yield prompt, answer


def parts(documents, most):
    """Lists of at most `most` tokens, in order."""
    part, size = [], 0
    for prompt, answer in documents:
        tokens = len(prompt) + len(answer)
        if part and size + tokens > most:
            yield part
            part, size = [], 0
        part.append((prompt, answer))
        size += tokens
    yield part


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts")
    parser.add_argument("--sources", default="")
    parser.add_argument("--context", type=int, default=8)
    parser.add_argument("answers", nargs="+")
    parser.add_argument("out")
    args = parser.parse_args()
    source_of = []
    if args.prompts:
        with open(args.prompts, encoding="utf-8") as f:
            source_of = [json.loads(line).get("source", "") for line in f if line.strip()]
    wanted = set(args.sources.split(",")) if args.sources else set(source_of)
    there = sorted(Path(args.out).glob("tokens-*.safetensors"))
    documents, manifests = [], []
    if there:
        manifest = Path(args.out, "distill.json")
        if not manifest.exists():
            raise SystemExit(f"{args.out}: holds shards without a distill.json; give another folder")
        manifests.append(json.loads(manifest.read_text()))
        if "prompts" in manifests[0]:
            raise SystemExit(f"{args.out}: holds answers of forerun distill, not a corpus of this tool; give another folder")
    held = [(i, key_of(prompt, answer)) for path in there for i, prompt, answer in read_shard(path)]
    for folder in args.answers:
        manifests.append(json.loads(Path(folder, "distill.json").read_text()))
        documents += [(prompt[max(0, len(prompt) - args.context):], answer)
                      for prompt, answer in answers_of(folder, manifests[-1], source_of, wanted)]
    documents = list(once(documents, {key for _, key in held}))
    if not documents:
        raise SystemExit("no answer is left: see --sources, or OUT holds them all")
    if any(m.get("vocabulary_hash") != manifests[0].get("vocabulary_hash") for m in manifests):
        raise SystemExit("answers of different vocabularies: make a corpus of each")
    for m in manifests:
        if m.get("target_hash") == manifests[0].get("target_hash"):
            m["target"] = manifests[0].get("target")  # one file under several names
    os.makedirs(args.out, exist_ok=True)
    kept = {k: manifests[0][k] for k in KEPT if k in manifests[0] and all(m.get(k) == manifests[0][k] for m in manifests)}
    first = max((i for i, _ in held), default=-1) + 1
    behind = max((int(path.stem.split("-")[1]) for path in there), default=-1) + 1
    for number, part in enumerate(parts(documents, MOST_TOKENS), start=behind):
        write(os.path.join(args.out, f"tokens-{number:05}.safetensors"), shard(part, range(first, first + len(part))))
        first += len(part)
    write(os.path.join(args.out, "distill.json"), (json.dumps(kept, indent=2) + "\n").encode())
    more = f" beside the {len(held)} of before" if held else ""
    print(f"{args.out}: {len(documents)} answers{more}, {sum(len(a) for _, a in documents)} tokens")


if __name__ == "__main__":
    main()
