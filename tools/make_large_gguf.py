#!/usr/bin/env python3
"""Writes a GGUF file of the size of a published model, with random weights in Q4_K (of gpt-oss
experts in MXFP4, other matrices in Q8_0): for tests of memory and loading.

usage: make_large_gguf.py KIND OUT     KIND: dream-7b   Dream-v0-7B's sizes (4.3 GB)
                                             qwen2-7b   a decoder of the same sizes, those of Qwen2.5-7B
                                             qwen3-moe  six of the 48 layers of Qwen3-30B-A3B (2.4 GB)
                                             gpt-oss    four of the 24 layers of gpt-oss-20b (3.1 GB)
                                             target     a decoder of one small block with the same vocabulary (48 MB)
                                             dream-tiny, target-tiny   the same with a few hundred tokens, for a quick look

Needs NumPy alone. Matrices repeat the same 4,096 random blocks, whose weights have mean 0 and a standard deviation of about
0.02; norms are 1, biases 0. The file is written to a temporary name and renamed.
"""

import os
import pathlib
import struct
import sys

import numpy as np

F32, Q8_0, Q4_K, MXFP4 = 0, 8, 12, 39
UINT32, FLOAT32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
ALIGNMENT, BLOCKS = 32, 4096
LAYOUTS = {F32: (1, 4), Q8_0: (32, 34), Q4_K: (256, 144), MXFP4: (32, 17)}  # numbers and bytes of a block
QWEN = {"hidden": 3584, "heads": 28, "kv": 4, "mlp": 18944, "layers": 28}
SMALL = {"hidden": 256, "heads": 4, "kv": 2, "mlp": 512, "layers": 1}
QWEN3_MOE = {"hidden": 2048, "heads": 32, "kv": 4, "head_dim": 128, "mlp": 768, "experts": 128, "used": 8, "layers": 6}
GPT_OSS = {"hidden": 2880, "heads": 64, "kv": 8, "head_dim": 64, "mlp": 2880, "experts": 32, "used": 4, "layers": 4}
KINDS = {"gpt-oss": ("gpt-oss", GPT_OSS, 201088), "qwen3-moe": ("qwen3moe", QWEN3_MOE, 151936), "dream-7b": ("dream", QWEN, 152064), "qwen2-7b": ("qwen2", QWEN, 152064), "target": ("qwen2", SMALL, 152064),
         "dream-tiny": ("dream", {**SMALL, "layers": 2}, 512), "target-tiny": ("qwen2", SMALL, 512)}


def random_blocks(kind):
    """BLOCKS blocks of a type. Q4_K: f16 d, f16 dmin, eight (scale, min) pairs of 6 bits, all 32, and 256 random nibbles."""
    blocks = np.random.default_rng(kind).integers(0, 256, (BLOCKS, LAYOUTS[kind][1]), np.uint8)
    if kind == MXFP4:
        blocks[:, 0] = 120  # 2^-7 times codes of a standard deviation of 2.9
        return blocks.tobytes()
    if kind == Q8_0:
        blocks[:, 0:2] = np.array([np.float16(0.02 / 74)]).view(np.uint8)
        return blocks.tobytes()
    blocks = np.zeros((BLOCKS, LAYOUTS[kind][1]), np.uint8)
    d = np.float16(0.02 / (32 * 4.61))  # nibbles have a standard deviation of 4.61 and a mean of 7.5
    blocks[:, 0:4] = np.array([d, np.float16(7.5 * d)]).view(np.uint8)
    blocks[:, 4:12] = 32 | 2 << 6  # the first four of each; the upper bits of the others, whose lower ones are 0
    blocks[:, 16:] = np.random.default_rng(1).integers(0, 256, (BLOCKS, 128), np.uint8)
    return blocks.tobytes()


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, value):
    packed = {UINT32: "<I", FLOAT32: "<f", BOOL: "<?"}
    raw = text(value) if kind == STRING else struct.pack(packed[kind], value)
    return text(key) + struct.pack("<I", kind) + raw


def array(key, kind, values):
    items = b"".join(text(v) if kind == STRING else struct.pack("<i", v) for v in values)
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + items


def vocabulary(size):
    """Printable ASCII as byte-level BPE spells it, a merge, unused tokens, and at the end those that Dream names."""
    letters = [chr(c) for c in range(ord("!"), ord("~") + 1)] + ["\u0120", "\u010a", "he"]
    tokens = letters + [f"<unused{i}>" for i in range(size - len(letters))]
    kinds = [1] * len(letters) + [5] * (size - len(letters))
    end, mask = (151643, 151666) if size > 151666 else (size - 2, size - 1)
    for token, name in ((end, "<|endoftext|>"), (mask, "<|mask|>")):
        tokens[token], kinds[token] = name, 3
    return tokens, kinds, end, mask


def metadata(arch, s, vocab):
    tokens, kinds, end, mask = vocabulary(vocab)
    out = [pair("general.architecture", STRING, arch), pair("general.name", STRING, "random weights"),
           pair(f"{arch}.context_length", UINT32, 2048), pair(f"{arch}.embedding_length", UINT32, s["hidden"]),
           pair(f"{arch}.block_count", UINT32, s["layers"]), pair(f"{arch}.feed_forward_length", UINT32, s["mlp"]),
           pair(f"{arch}.attention.head_count", UINT32, s["heads"]),
           pair(f"{arch}.attention.head_count_kv", UINT32, s["kv"]),
           pair(f"{arch}.attention.layer_norm_rms_epsilon", FLOAT32, 1e-6),
           pair(f"{arch}.rope.freq_base", FLOAT32, 1e6), pair("tokenizer.ggml.model", STRING, "gpt2"),
           pair("tokenizer.ggml.pre", STRING, "qwen2"), array("tokenizer.ggml.tokens", STRING, tokens),
           array("tokenizer.ggml.token_type", 5, kinds), array("tokenizer.ggml.merges", STRING, ["h e"]),
           pair("tokenizer.ggml.eos_token_id", UINT32, end)]
    if "experts" in s:
        out += [pair(f"{arch}.{key}", UINT32, value) for key, value in (
            ("expert_count", s["experts"]), ("expert_used_count", s["used"]), ("expert_feed_forward_length", s["mlp"]),
            ("attention.key_length", s["head_dim"]), ("attention.value_length", s["head_dim"]))]
    if arch == "gpt-oss":
        out += [pair(f"{arch}.attention.sliding_window", UINT32, 128), pair(f"{arch}.rope.scaling.type", STRING, "yarn"),
                pair(f"{arch}.rope.scaling.factor", FLOAT32, 32.0),
                pair(f"{arch}.rope.scaling.original_context_length", UINT32, 4096)]
    if arch == "dream":
        out += [pair("tokenizer.ggml.mask_token_id", UINT32, mask), pair("diffusion.shift_logits", BOOL, True)]
    return out


def tensors(s, vocab):
    """(name, shape, outermost first)."""
    h, width = s["hidden"], s.get("head_dim", s["hidden"] // s["heads"])
    q = s["heads"] * width
    out = [("token_embd.weight", (vocab, h)), ("output_norm.weight", (h,)), ("output.weight", (vocab, h))]
    for i in range(s["layers"]):
        kv = s["kv"] * width
        shapes = {"attn_norm.weight": (h,), "attn_q.weight": (q, h), "attn_k.weight": (kv, h),
                  "attn_v.weight": (kv, h), "attn_output.weight": (h, q), "ffn_norm.weight": (h,)}
        if s is GPT_OSS:
            n, m = s["experts"], s["mlp"]
            del shapes["ffn_norm.weight"]
            shapes |= {"post_attention_norm.weight": (h,), "attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,),
                       "attn_output.bias": (h,), "attn_sinks.weight": (s["heads"],), "ffn_gate_inp.weight": (n, h),
                       "ffn_gate_inp.bias": (n,), "ffn_gate_exps.weight": (n, m, h), "ffn_gate_exps.bias": (n, m),
                       "ffn_up_exps.weight": (n, m, h), "ffn_up_exps.bias": (n, m), "ffn_down_exps.weight": (n, h, m),
                       "ffn_down_exps.bias": (n, h)}
        elif "experts" in s:
            n = s["experts"]
            shapes |= {"attn_q_norm.weight": (width,), "attn_k_norm.weight": (width,), "ffn_gate_inp.weight": (n, h),
                       "ffn_gate_exps.weight": (n, s["mlp"], h), "ffn_up_exps.weight": (n, s["mlp"], h),
                       "ffn_down_exps.weight": (n, h, s["mlp"])}
        else:
            shapes |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,), "ffn_gate.weight": (s["mlp"], h),
                       "ffn_up.weight": (s["mlp"], h), "ffn_down.weight": (h, s["mlp"])}
        out += [(f"blk.{i}.{name}", shape) for name, shape in shapes.items()]
    return out


def aligned(n):
    return -(-n // ALIGNMENT) * ALIGNMENT


def kind_of(arch, name, shape):
    if len(shape) == 1 or name.endswith(("gate_inp.weight", ".bias")):
        return F32
    return Q4_K if arch != "gpt-oss" else MXFP4 if len(shape) == 3 else Q8_0


def write_repeated(file, blocks, size, at):
    """`size` bytes of the repeated blocks, from place `at` of them on."""
    at = at % BLOCKS * (len(blocks) // BLOCKS)
    while size > 0:
        piece = blocks[at:at + size]
        file.write(piece)
        size, at = size - len(piece), 0


def vector(name, count, seed):
    """Norms, biases, and routers, which llama.cpp's files have in float32."""
    if name.endswith("gate_inp.weight"):
        return np.random.default_rng(seed).normal(0.0, 0.02, count).astype(np.float32).tobytes()
    return np.full(count, 0.0 if name.endswith(".bias") else 1.0, np.float32).tobytes()


def write(kind, path):
    arch, sizes, vocab = KINDS[kind]
    entries, listed, offset = metadata(arch, sizes, vocab), tensors(sizes, vocab), 0
    header = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(entries)) + b"".join(entries)
    planned = []
    for name, shape in listed:
        stored, count = kind_of(arch, name, shape), int(np.prod(shape))
        numbers, bytes_of = LAYOUTS[stored]
        size = count // numbers * bytes_of
        header += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), stored, offset)
        planned.append((name, stored, size))
        offset += aligned(size)
    blocks = {stored: random_blocks(stored) for _, stored, _ in planned if stored != F32}
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as file:
        file.write(header.ljust(aligned(len(header)), b"\0"))
        for number, (name, stored, size) in enumerate(planned):
            if stored != F32:
                write_repeated(file, blocks[stored], size, 37 * number)
            else:
                file.write(vector(name, size // 4, number))
            file.write(bytes(aligned(size) - size))
    os.replace(temporary, path)
    print(f"{path}: {path.stat().st_size} bytes, {sum(int(np.prod(s)) for _, s in listed)} weights")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    write(sys.argv[1], pathlib.Path(sys.argv[2]))
