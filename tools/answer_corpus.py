#!/usr/bin/env python3
"""A corpus for the drafter sam:FOLDER out of answers of forerun distill: documents of some sources, without their prompts.

usage: answer_corpus.py --prompts PROMPTS.jsonl [--sources NAME,NAME,...] [--context 8] ANSWERS... OUT

PROMPTS.jsonl is the file that forerun distill read; --sources keeps the answers to prompts whose "source" is listed. Of a prompt its
last --context tokens stay, as the context in which an answer begins. The same input makes the same files.
"""

import argparse
import json
import os
import struct
from array import array
from pathlib import Path


def read_shard(path):
    """(id of the prompt, its tokens, those of the answer) of each document."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    part = {n: array("i" if t["dtype"] == "I32" else "q", data[slice(*t["data_offsets"])])
            for n, t in header.items() if n != "__metadata__"}
    begin = 0
    for end, prompt, i in zip(part["ends"], part["prompts"], part["ids"]):
        yield i, part["tokens"][begin:begin + prompt], part["tokens"][begin + prompt:end]
        begin = end


def write(path, data):
    """Complete or not at all."""
    temporary = f"{path}.tmp-{os.getpid()}"
    with open(temporary, "wb") as f:
        f.write(data)
    os.replace(temporary, path)


def shard(documents):
    tokens, ends, prompts = array("i"), array("q"), array("q")
    for context, answer in documents:
        tokens.extend(context)
        tokens.extend(answer)
        ends.append(len(tokens))
        prompts.append(len(context))
    header, at, body = {"__metadata__": {"format": "forerun token shard 1"}}, 0, b""
    for name, kind, values in (("ends", "I64", ends), ("ids", "I64", array("q", range(len(ends)))),
                               ("prompts", "I64", prompts), ("tokens", "I32", tokens)):
        size = len(values) * values.itemsize
        header[name] = {"dtype": kind, "shape": [len(values)], "data_offsets": [at, at + size]}
        at += size
        body += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


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
