#!/usr/bin/env python3
"""What a small language model from nothing needs besides forerun: a byte-level BPE of its own in a Hugging Face folder with
the sizes of a Llama, and texts as token shards.

usage: small_model.py begin --out FOLDER [--vocab 4096] [--layers 6] [--width 256] ... SOURCE...
       small_model.py shards --model FOLDER --out DATA [--length 512] SOURCE...

       forerun train tidar --full --random --target FOLDER --data DATA --out MODEL

SOURCE: a text file; a folder (its *.txt and *.md, and its *.gz of text); a *.jsonl of {"text"} or of {"prompt", "answer"}; or a
folder of forerun distill, whose tokens --pieces (the GGUF file or tokenizer.json of the model that wrote it) turns into text.
Texts are cut into documents of --length tokens, each of which begins with <|endoftext|>; an answer stays one document, in the
chat format of the folder, and its prompt is not learned. The same sources make the same files.

The packages are those of tools/small_model.txt.
"""

import argparse
import gzip
import json
import os
import re
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from token_shards import read_shard, shard, write

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


# --- what is read ---

def gguf_pieces(path):
    """tokenizer.ggml.tokens of a GGUF file (version 2 or 3)."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    with open(path, "rb") as f:
        def number(n):
            return int.from_bytes(f.read(n), "little")

        def text():
            return f.read(number(8)).decode("utf-8", "replace")

        def value(kind):
            if kind == 8:
                return text()
            if kind == 9:
                of, n = number(4), number(8)
                return [value(of) for _ in range(n)]
            return f.read(sizes[kind])

        if f.read(4) != b"GGUF" or number(4) not in (2, 3):
            raise SystemExit(f"{path}: no GGUF file of version 2 or 3")
        number(8)
        for _ in range(number(8)):
            key, kind = text(), number(4)
            found = value(kind)
            if key == "tokenizer.ggml.tokens":
                return found
    raise SystemExit(f"{path}: holds no tokens")


def decoder_of(path):
    """A function from token ids to text, by a GGUF file's or a tokenizer.json's byte-level vocabulary."""
    if str(path).endswith(".json"):
        tokenizer = Tokenizer.from_file(str(path))
        return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False)
    pieces = gguf_pieces(path)
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    byte_of = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}

    def decode(ids):
        return bytes(byte_of[c] for i in ids for c in pieces[i] if c in byte_of).decode("utf-8", "replace")
    return decode


def distilled(folder, decode):
    for path in sorted(Path(folder).glob("*.safetensors")):
        for _, prompt, answer in read_shard(path):
            turns = re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", decode(prompt), re.S)
            if turns:
                yield {"prompt": turns[-1], "answer": decode(answer).split("<|im_end|>")[0]}


def files_of(folder):
    for path in sorted(Path(folder).rglob("*")):
        if path.suffix in (".txt", ".md", ".gz") and path.is_file():
            yield path


def documents(sources, pieces):
    """{"text"} or {"prompt", "answer"}, in the order of the sources."""
    for source in sources:
        if os.path.exists(os.path.join(source, "distill.json")):
            if not pieces:
                raise SystemExit(f"{source}: of forerun distill: say by --pieces whose tokens these are")
            yield from distilled(source, decoder_of(pieces))
        elif source.endswith(".jsonl"):
            with open(source, encoding="utf-8") as f:
                yield from (json.loads(line) for line in f if line.strip())
        else:
            for path in files_of(source) if os.path.isdir(source) else [Path(source)]:
                data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
                yield {"text": data.decode("utf-8", "replace")}


# --- what is written ---

def begin(args):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=args.vocab, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator((d.get("text") or d["prompt"] + "\n" + d["answer"]
                                   for d in documents(args.source, args.pieces)), trainer)
    os.makedirs(args.out, exist_ok=True)
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": args.width,
              "intermediate_size": args.ffn or (args.width * 8 // 3 + 31) // 32 * 32, "num_hidden_layers": args.layers,
              "num_attention_heads": args.heads, "num_key_value_heads": args.kv_heads or args.heads,
              "vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": args.context, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
              "bos_token_id": ids["<|endoftext|>"], "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]]}
    settings = {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "add_bos_token": False,
                "chat_template": TEMPLATE}
    write(os.path.join(args.out, "tokenizer.json"), tokenizer.to_str(pretty=True).encode())
    write(os.path.join(args.out, "tokenizer_config.json"), (json.dumps(settings, indent=2) + "\n").encode())
    write(os.path.join(args.out, "config.json"), (json.dumps(config, indent=2) + "\n").encode())
    print(f"{args.out}: {tokenizer.get_vocab_size()} tokens")


def encoded(tokenizer, sources, pieces, length):
    """(tokens, prompt's length) of each training document."""
    end, start = tokenizer.token_to_id("<|endoftext|>"), "<|im_start|>"
    for d in documents(sources, pieces):
        if "answer" in d:
            prompt = tokenizer.encode(f"{start}user\n{d['prompt']}<|im_end|>\n{start}assistant\n").ids
            yield (prompt + tokenizer.encode(d["answer"] + "<|im_end|>").ids)[:length], len(prompt)
            continue
        tokens = tokenizer.encode(d["text"]).ids
        for i in range(0, len(tokens), length - 2):
            part = tokens[i:i + length - 2]
            yield [end, *part, *([end] if i + length - 2 >= len(tokens) else [])], 0


def shards(args):
    tokenizer = Tokenizer.from_file(os.path.join(args.model, "tokenizer.json"))
    kept = [(t, p) for t, p in encoded(tokenizer, args.source, args.pieces, args.length) if len(t) >= p + 2]
    if not kept:
        raise SystemExit("the sources hold nothing to learn from")
    os.makedirs(args.out, exist_ok=True)
    write(os.path.join(args.out, "tokens-00000.safetensors"), shard((t[:p], t[p:]) for t, p in kept))
    print(f"{args.out}: {len(kept)} documents, {sum(len(t) for t, _ in kept)} tokens")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    new = commands.add_parser("begin", help="a folder with tokenizer and sizes")
    for flag, value in (("vocab", 4096), ("layers", 6), ("width", 256), ("heads", 4), ("kv-heads", 0), ("ffn", 0),
                        ("context", 1024)):
        new.add_argument(f"--{flag}", type=int, default=value)
    new.set_defaults(run=begin)
    data = commands.add_parser("shards", help="texts as token shards")
    data.add_argument("--model", required=True)
    data.add_argument("--length", type=int, default=512)
    data.set_defaults(run=shards)
    for command in (new, data):
        command.add_argument("--out", required=True)
        command.add_argument("--pieces")
        command.add_argument("source", nargs="+")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
