#!/usr/bin/env python3
"""Makes tests/data/medusa/training/: the loss that Medusa heads are trained with, its figures, and its gradient by every
weight, in plain PyTorch (float64) on top of the states of the tiny target tests/data/tiny/llama_plain, whose passes are
compared here with transformers' (expected.safetensors there).

usage: make_medusa_training_values.py      (offline; needs torch alone)

config.json, model.safetensors   random heads with a Markov head over the whole vocabulary, bf16
expected.safetensors, int64 and float32:
  tokens, ends, prompts [documents]  as in a token shard
  kept [drafted]                     the draft vocabulary of the cases that have a reduced one
  CASE.options [2]                   Markov head, reduced vocabulary (0 or 1)
  CASE.numbers [2]                   gamma, share of the target's law
  CASE.loss, CASE.weight [1]         sums over all places that have a successor in their answer
  CASE.figures [3]                   places, right first drafts, leading right drafts
  CASE.gradient.NAME                 by a vector; by a matrix: times the vector cos(0), cos(1), ... (rows remain: of the
                                     draft vocabulary where it is reduced)
"""

import json
import struct

import torch
from torch.nn import functional as F

import make_medusa_values as base

TARGET = base.ROOT.parent / "tiny" / "llama_plain"
base.HIDDEN, base.VOCAB = 48, 176
FEATURES, DRAFTED, HEADS = [0, 1], 60, 3
CONFIG = base.SIZES | {"hidden_size": base.HIDDEN, "vocab_size": base.VOCAB, "num_target_layers": 3,
                       "target_layer_ids": FEATURES, "medusa_width": 32, "intermediate_size": 40,
                       "medusa_num_heads": HEADS, "draft_vocab_size": base.VOCAB, "markov_rank": 3, "rms_norm_eps": 1e-6}
CASES = {  # the options, then the numbers, in the order above
    "everything": ((1, 1), (2.5, 0.7)),
    "tokens": ((0, 0), (4.0, 0.0)),
    "law": ((0, 1), (1.5, 1.0)),
    "whole_vocabulary": ((1, 0), (7.0, 0.7)),
}


def read(path):
    kinds = {"F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32}
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in t["data_offsets"])
            out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=kinds[t["dtype"]]).view(t["shape"])
    return out


class Target:
    """A Llama with a tied head, one text at a time."""

    def __init__(self, folder):
        self.c = json.loads((folder / "config.json").read_text())
        self.w = {n.removeprefix("model."): t.double() for n, t in read(folder / "model.safetensors").items()}
        assert self.c["tie_word_embeddings"]

    def norm(self, x, name):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.c["rms_norm_eps"]) * self.w[name]

    def rotated(self, x):
        """[heads, tokens, dim]; angles in float32, as every implementation has them."""
        dim = x.shape[-1]
        frequency = 1.0 / self.c["rope_parameters"]["rope_theta"] ** (torch.arange(0, dim, 2).float() / dim)
        angle = torch.arange(x.shape[1]).float()[:, None] * frequency
        cos, sin = (torch.cat([f(angle)] * 2, -1).double() for f in (torch.cos, torch.sin))
        return x * cos + torch.cat([-x[..., dim // 2:], x[..., :dim // 2]], -1) * sin

    def states(self, tokens):
        """The blocks' outputs and the logits, [tokens, ...]."""
        c, w, x, out = self.c, self.w, self.w["embed_tokens.weight"][tokens], []
        for n in range(c["num_hidden_layers"]):
            at = f"layers.{n}."
            h = self.norm(x, at + "input_layernorm.weight")
            q, k, v = ((h @ w[f"{at}self_attn.{m}_proj.weight"].T).view(len(tokens), -1, 8).transpose(0, 1) for m in "qkv")
            shared = c["num_attention_heads"] // c["num_key_value_heads"]
            q, k, v = self.rotated(q), self.rotated(k).repeat_interleave(shared, 0), v.repeat_interleave(shared, 0)
            later = torch.ones(len(tokens), len(tokens)).triu(1).bool()
            scores = (q @ k.transpose(1, 2) / 8 ** 0.5).masked_fill(later, -torch.inf)
            x = x + (scores.softmax(-1) @ v).transpose(0, 1).flatten(1) @ w[at + "self_attn.o_proj.weight"].T
            h = self.norm(x, at + "post_attention_layernorm.weight")
            gate, up = (h @ w[f"{at}mlp.{m}_proj.weight"].T for m in ("gate", "up"))
            x = x + (F.silu(gate) * up) @ w[at + "mlp.down_proj.weight"].T
            out.append(x)
        return out, self.norm(x, "norm.weight") @ w["embed_tokens.weight"].T

    def check(self, folder):
        e = read(folder / "expected.safetensors")
        blocks, logits = self.states(e["tokens_0"].flatten().long())
        for have, want in ((blocks[0], "hidden_0_0"), (blocks[1], "hidden_1_0"), (logits, "logits_0")):
            assert (have - e[want].double()).abs().max() < 2e-4, want


def logits_at(case, w, target, states, tokens, kept, p, k):
    """Of head k where p is the newest token: over the draft vocabulary, after the true token before the place."""
    (markov, reduced), _ = case
    rows = kept if reduced else torch.arange(base.VOCAB)
    features = torch.cat([states[i][p - 1] for i in FEATURES])[None]
    heads = base.head_states(CONFIG, w, target.w["embed_tokens.weight"], features, tokens[p:p + 1])[0]
    out = heads[k] @ w["lm_head.weight"][rows].T
    if markov:
        out = out + w["markov_head.markov_w2.weight"][rows] @ w["markov_head.markov_w1.weight"][tokens[p + k]]
    return out, rows


def loss_of(case, w, target, documents, kept):
    """(sum, weight, figures) over every place of every answer, head by head."""
    _, (gamma, law) = case
    total, weight, places, first, right = torch.zeros(()).double(), 0.0, 0, 0, 0
    for tokens, prompt in documents:
        states, said = target.states(tokens)
        for p in range(max(prompt, 1), len(tokens) - 1):
            places, alive = places + 1, True
            for k in range(min(HEADS, len(tokens) - 1 - p)):
                logits, rows = logits_at(case, w, target, states, tokens, kept, p, k)
                at = p + 1 + k
                if tokens[at] not in rows:
                    break
                label = (rows == tokens[at]).nonzero().item()
                log_q, teacher = logits.log_softmax(-1), said[at - 1][rows].softmax(-1)
                slot = -(1 - law) * log_q[label] - law * (teacher * log_q).sum()
                counts = torch.exp(torch.tensor(-k / gamma).double())
                total, weight = total + counts * slot, weight + counts.item()
                best = logits.detach().topk(2)
                assert best.values[0] - best.values[1] > 1e-3  # float32 has the same best
                alive = alive and best.indices[0].item() == label
                first, right = first + (alive and k == 0), right + alive
    return total, weight, (places, first, right)


def written_text(size, prompt, w, target, kept):
    """A text that follows the heads often enough to have runs of right drafts, now of one case, then of another."""
    tokens = kept[torch.randint(DRAFTED, (max(prompt, 2),))]
    while len(tokens) < size:
        k = int(torch.randint(HEADS, ()))
        p = len(tokens) - 1 - k
        token = torch.randint(base.VOCAB, (1,))
        if p >= max(prompt, 1) and torch.rand(()) < 0.9:
            case = list(CASES.values())[int(torch.randint(len(CASES), ()))]
            logits, rows = logits_at(case, w, target, target.states(tokens)[0], tokens, kept, p, k)
            token = rows[logits.argmax()][None]
        tokens = torch.cat([tokens, token])
    return tokens, prompt


def main():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    target = Target(TARGET)
    target.check(TARGET)
    stored = base.random_weights(CONFIG)
    weights = {n: t.double() for n, t in stored.items()}
    kept = torch.randperm(base.VOCAB)[:DRAFTED].sort().values
    # The third answer has fewer tokens than there are heads.
    documents = [written_text(*sizes, weights, target, kept) for sizes in ((14, 4), (10, 0), (8, 6), (13, 6))]
    answers = torch.cat([tokens[prompt:] for tokens, prompt in documents])
    assert 4 <= (~torch.isin(answers, kept)).sum() <= 12  # some places end at a token that cannot be drafted
    expected = {"tokens": torch.cat([t for t, _ in documents]),
                "ends": torch.tensor([len(t) for t, _ in documents]).cumsum(0),
                "prompts": torch.tensor([p for _, p in documents]), "kept": kept}
    for name, case in CASES.items():
        w = {n: t.clone().requires_grad_() for n, t in weights.items()}
        total, weight, figures = loss_of(case, w, target, documents, kept)
        print(name, f"loss {total.item():.3f} weight {weight:.3f} figures {figures}")
        assert 1 < figures[1] <= figures[2] and figures[1] < figures[0] - 1  # right and wrong drafts
        assert case[0] != (1, 1) or figures[2] > figures[1] + 2  # and runs of right ones
        total.backward()
        expected |= {f"{name}.options": torch.tensor(case[0]), f"{name}.numbers": torch.tensor(case[1]),
                     f"{name}.loss": total.detach()[None], f"{name}.weight": torch.tensor([weight]),
                     f"{name}.figures": torch.tensor(figures)}
        for n, t in w.items():
            if t.grad is not None:
                g = t.grad[kept] if case[0][1] and n in ("lm_head.weight", "markov_head.markov_w2.weight") else t.grad
                along = torch.cos(torch.arange(g.shape[-1]).double())
                expected[f"{name}.gradient.{n}"] = g if g.ndim == 1 else g @ along
    folder = base.ROOT / "training"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    base.save(folder / "model.safetensors", stored)
    base.save(folder / "expected.safetensors",
              {n: t if t.dtype == torch.int64 else t.detach().float() for n, t in expected.items()})
    print(f"{folder}: {sum(f.stat().st_size for f in folder.iterdir()) / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
