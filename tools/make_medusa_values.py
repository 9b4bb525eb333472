#!/usr/bin/env python3
"""Makes tests/data/medusa/: small random Medusa heads, and what plain PyTorch computes with them by the formulas of
forerun/models/medusa/medusa.h.

usage: make_medusa_values.py      (offline; needs torch alone)

target.safetensors                       the target's embedding, [vocab, hidden], bf16
CASE/config.json, model.safetensors      the heads, bf16; heads of fewer tokens than the target's have d2t [draft_vocab]:
                                         token - row
CASE/expected.safetensors                of the bf16 weights, in float32:
  features [n, features * hidden], newest [n], states [n, heads, width], logits [n, heads, draft_vocab]
  previous [m], bias [m, draft_vocab]    what the token before adds, if there is a Markov head
  tokens [draft_vocab]                   the target's tokens of the rows
  markov only, in float64, as the bits of int64: loss [1] and gradient.NAME of every weight, of the cross-entropy of
  labels [n, heads] after the tokens before [n, heads], head k weighed by exp(-k / 2)
"""

import json
import pathlib
import struct

import torch
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "medusa"
HIDDEN, VOCAB, LAYERS, ROWS = 24, 64, 9, 5
SIZES = {"architectures": ["ForerunMedusa"], "model_type": "medusa", "hidden_size": HIDDEN, "vocab_size": VOCAB,
         "num_target_layers": LAYERS, "medusa_width": 32, "intermediate_size": 64, "medusa_num_heads": 3,
         "dtype": "bfloat16"}
# The second has its features in an order that does not rise, and an epsilon that shows.
CASES = {"markov": {"target_layer_ids": [1, 4, 6], "draft_vocab_size": 40, "markov_rank": 6, "rms_norm_eps": 1e-6},
         "plain": {"target_layer_ids": [4, 0, 7], "draft_vocab_size": VOCAB, "markov_rank": 0, "rms_norm_eps": 0.03}}


def save(path, tensors):
    """safetensors: the header's length, the header, the numbers; wider ones first."""
    kinds = {torch.int64: "I64", torch.float32: "F32", torch.bfloat16: "BF16"}
    header, body = {}, b""
    for name, t in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        data = bytes(t.contiguous().reshape(-1).view(torch.uint8).tolist())
        header[name] = {"dtype": kinds[t.dtype], "shape": list(t.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def shapes(c):
    d, w, i, heads, drafted = HIDDEN, c["medusa_width"], c["intermediate_size"], c["medusa_num_heads"], c["draft_vocab_size"]
    features = len(c["target_layer_ids"])
    out = {f"feature_norms.{k}.weight": (d,) for k in range(features)}
    out |= {"embedding_norm.weight": (d,), "fc.weight": (w, (features + 1) * d), "mlp_norm.weight": (w,),
            "mlp.gate_proj.weight": (i, w), "mlp.up_proj.weight": (i, w), "mlp.down_proj.weight": (w, i),
            "norm.weight": (w,), "heads.weight": (heads * w, w)}
    out |= {f"head_norms.{k}.weight": (w,) for k in range(heads)}
    out["lm_head.weight"] = (drafted, w)
    if c["markov_rank"] > 0:
        out["markov_head.markov_w1.weight"] = (VOCAB, c["markov_rank"])
        out["markov_head.markov_w2.weight"] = (drafted, c["markov_rank"])
    return out


def random_weights(c):
    """bf16 values in which every part matters: norms far from one."""
    out = {}
    for name, shape in shapes(c).items():
        noise = torch.randn(shape)
        if len(shape) == 1:
            noise = 1.0 + 0.3 * noise
        elif not name.endswith("markov_w1.weight"):
            noise = noise * 1.5 / shape[-1] ** 0.5
        out[name] = noise.bfloat16()
    return out


def norm(c, x, weight):
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + c["rms_norm_eps"]) * weight


def head_states(c, w, embedding, features, newest):
    """[n, heads, width]"""
    parts = [norm(c, x, w[f"feature_norms.{k}.weight"]) for k, x in enumerate(features.split(HIDDEN, -1))]
    parts.append(norm(c, embedding[newest], w["embedding_norm.weight"]))
    z = torch.cat(parts, -1) @ w["fc.weight"].T
    x = norm(c, z, w["mlp_norm.weight"])
    z = z + (F.silu(x @ w["mlp.gate_proj.weight"].T) * (x @ w["mlp.up_proj.weight"].T)) @ w["mlp.down_proj.weight"].T
    y = norm(c, z, w["norm.weight"])
    width = c["medusa_width"]
    return torch.stack([norm(c, y + y @ w["heads.weight"][k * width:(k + 1) * width].T, w[f"head_norms.{k}.weight"])
                        for k in range(c["medusa_num_heads"])], 1)


def markov_bias(w, previous):
    return w["markov_head.markov_w1.weight"][previous] @ w["markov_head.markov_w2.weight"].T


def bits(t):
    return t.detach().double().contiguous().view(torch.int64)


def gradients(c, stored, embedding, features, newest):
    w = {n: t.double().requires_grad_() for n, t in stored.items()}
    labels, before = torch.randint(c["draft_vocab_size"], (ROWS, 3)), torch.randint(VOCAB, (ROWS, 3))
    states = head_states(c, w, embedding.double(), features.double(), newest)
    logits = states @ w["lm_head.weight"].T + markov_bias(w, before)
    entropy = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(ROWS, 3)
    weight = torch.exp(-torch.arange(3).double() / 2).expand(ROWS, 3)
    loss = (weight * entropy).sum() / weight.sum()
    loss.backward()
    return {"labels": labels, "before": before, "loss": bits(loss[None])} | {f"gradient.{n}": bits(t.grad) for n, t in w.items()}


def make(case, settings, embedding, seed):
    torch.manual_seed(seed)
    c = SIZES | settings
    stored = random_weights(c)
    tokens = torch.randperm(VOCAB)[:c["draft_vocab_size"]].sort().values
    w = {n: t.float() for n, t in stored.items()}
    # Features of unlike sizes: a norm each.
    features = torch.randn(ROWS, 3 * HIDDEN) * torch.tensor([1.0, 8.0, 0.3]).repeat_interleave(HIDDEN)
    newest = torch.tensor([5, 0, VOCAB - 1, 40, 5])
    states = head_states(c, w, embedding.float(), features, newest)
    expected = {"features": features, "newest": newest, "states": states, "logits": states @ w["lm_head.weight"].T,
                "tokens": tokens}
    if c["markov_rank"] > 0:
        previous = torch.tensor([0, VOCAB - 1, 17, 5, 17, 33, 62])
        expected |= {"previous": previous, "bias": markov_bias(w, previous)}
        expected |= gradients(c, stored, embedding, features, newest)
    if len(tokens) < VOCAB:
        stored["d2t"] = tokens - torch.arange(len(tokens))
    folder = ROOT / case
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    save(folder / "model.safetensors", stored)
    save(folder / "expected.safetensors", expected)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    ROOT.mkdir(parents=True, exist_ok=True)
    embedding = torch.randn(VOCAB, HIDDEN).bfloat16()
    save(ROOT / "target.safetensors", {"embed_tokens.weight": embedding})
    for seed, (case, settings) in enumerate(CASES.items(), start=2):
        make(case, settings, embedding, seed)
    total = sum(f.stat().st_size for f in ROOT.rglob("*") if f.is_file())
    print(f"{ROOT}: {total / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
