"""Token shards of forerun (formats/token_shards.h): documents of tokens, each a prompt and an answer, in one safetensors file."""

import gzip
import json
import os
import struct
from array import array


def read_shard(path):
    """(id of the prompt, its tokens, those of the answer) of each document; of a file that may be compressed (.gz)."""
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    kinds = {"U16": "H", "I32": "i", "I64": "q"}
    part = {n: array(kinds[t["dtype"]], data[slice(*t["data_offsets"])])
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


def shard(documents, ids=None):
    """The bytes of a shard of (prompt's tokens, answer's) pairs; without ids these count them."""
    tokens, ends, prompts = array("i"), array("q"), array("q")
    for prompt, answer in documents:
        tokens.extend(prompt)
        tokens.extend(answer)
        ends.append(len(tokens))
        prompts.append(len(prompt))
    header, at, body = {"__metadata__": {"format": "forerun token shard 1"}}, 0, b""
    for name, kind, values in (("ends", "I64", ends), ("ids", "I64", array("q", range(len(ends)) if ids is None else ids)),
                               ("prompts", "I64", prompts), ("tokens", "I32", tokens)):
        size = len(values) * values.itemsize
        header[name] = {"dtype": kind, "shape": [len(values)], "data_offsets": [at, at + size]}
        at += size
        body += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body
