#!/usr/bin/env python3
"""Makes tests/data/tidar/: the loss that gated LoRA is trained with, and its gradient by every weight, by PyTorch's
autograd (float64) through transformers' decoders: text and masks as one doubled sequence with its whole mask of who sees
whom (TiDAR, arXiv:2511.08923, section 3.1), and adapters times a gate of zeros and ones (arXiv:2507.11851).

usage: make_tidar_values.py      (offline; torch, transformers, safetensors)

CASE/config.json, model.safetensors   random adapters for tests/data/tiny/CASE, bf16, a file of forerun train tidar
CASE/expected.safetensors, int64 and float32:
  tokens, ends, prompts [documents]   as in a token shard
  numbers [2]                         gamma, share of the target's law
  loss, weight [1]                    sums over the blocks at every position of the answers
  right [block - 1]                   blocks whose draft of slot 1, 2, ... is the token that came
  gradient.NAME                       by a vector; by a matrix: times the vector cos(0), cos(1), ... (rows remain)

full_CASE/expected.safetensors        the same of a whole model, no adapters: every weight of tests/data/tiny/CASE learns, a text's
                                      rows count alpha each and its masks together as many as those rows; besides
  numbers [3]                         gamma, share of the law of the text's rows (which gets no gradient), alpha
  start.NAME                          what mask rows have besides the decoder: mask_embedding, markov_head...
  text [1]                            cross-entropy of the text's rows, their sum
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parent.parent / "tests" / "data"
CASES = {  # block, first slot, rank, Markov rank, gamma, share of the law
    "llama_plain": (4, 1, 3, 2, 2.5, 0.3),
    "qwen3": (3, 0, 2, 0, 4.0, 1.0),
    "gemma3": (4, 1, 2, 3, 1.5, 0.0),
}
FULL = {  # block, first slot, Markov rank, gamma, share of the law, alpha
    "llama": (4, 1, 2, 2.5, 0.3, 0.7),
    "qwen3": (3, 0, 0, 4.0, 0.0, 1.0),
    "gemma3": (4, 1, 3, 1.5, 1.0, 0.4),
}
PROJECTIONS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
               "mlp.up_proj", "mlp.down_proj"]


class Gated(nn.Module):
    """y = W x + gate * B A x, the gate being one number for every row."""

    def __init__(self, linear, a, b):
        super().__init__()
        self.linear, self.a, self.b, self.gate = linear, a, b, None

    def forward(self, x):
        return self.linear(x) + self.gate * ((x @ self.a.T) @ self.b.T)


def shapes_of(model, rank, markov):
    shapes = {"mask_embedding": (model.config.hidden_size,)}
    for i, layer in enumerate(model.model.layers):
        for name in PROJECTIONS:
            outputs, inputs = layer.get_submodule(name).weight.shape
            shapes[f"model.layers.{i}.{name}.lora_A.weight"] = (rank, inputs)
            shapes[f"model.layers.{i}.{name}.lora_B.weight"] = (outputs, rank)
    for table in ("w1", "w2") if markov else ():
        shapes[f"markov_head.markov_{table}.weight"] = (model.config.vocab_size, markov)
    return shapes


def doubled_logits(model, w, tokens, starts, block, first):
    """Logits of the text's rows, and of every block's masks [blocks, slots, vocab]."""
    n, slots = len(tokens), block - first
    positions = torch.tensor(list(range(n)) + [p + first + s for p in starts for s in range(slots)])
    rows = len(positions)
    owner = torch.tensor([-1] * n + [b for b in range(len(starts)) for _ in range(slots)])
    last_seen = torch.tensor(list(range(n)) + [p - 1 for p in starts for _ in range(slots)])  # of the text
    text = torch.arange(rows) < n
    seen = (text[None, :] & (torch.arange(rows)[None, :] <= last_seen[:, None])) | (
        ~text[None, :] & (owner[:, None] == owner[None, :]))
    window = getattr(model.config, "sliding_window", None)
    local = seen & ((positions[:, None] - positions[None, :]).abs() < window) if window else seen
    masks = [torch.zeros(1, 1, rows, rows).double().masked_fill(~m[None, None], -1e30) for m in (seen, local)]
    for m in model.modules():
        if isinstance(m, Gated):
            m.gate = (~text).double()[:, None]
    embedded = model.model.embed_tokens(tokens)
    inputs = torch.cat([embedded, w["mask_embedding"].expand(rows - n, -1)])[None]
    kinds = {"full_attention": masks[0], "sliding_attention": masks[1]}
    out = model(inputs_embeds=inputs, position_ids=positions[None],
                attention_mask=kinds if window and hasattr(model.config, "layer_types") else masks[0]).logits[0]
    return out[:n], out[n:].view(len(starts), slots, -1)


def loss_of(model, w, documents, case):
    """(sum, weight, right drafts of slots 1, 2, ...) over the blocks at every position of the answers."""
    block, first, _, markov, gamma, share = case
    total, weight, right = torch.zeros(()).double(), 0.0, torch.zeros(block - 1)
    for tokens, prompt in documents:
        starts = list(range(max(prompt, 1), len(tokens) - first))
        text, masks = doubled_logits(model, w, tokens, starts, block, first)
        for b, p in enumerate(starts):
            for s in range(first, block):
                at = p + s
                if at >= len(tokens):
                    break
                logits = masks[b, s - first]
                if markov:
                    logits = logits + w["markov_head.markov_w2.weight"] @ w["markov_head.markov_w1.weight"][
                        tokens[at - 1]]
                log_q = logits.log_softmax(-1)
                law = text[at - 1].detach().softmax(-1)
                slot = -(1 - share) * log_q[tokens[at]] - share * (law * log_q).sum()
                counts = torch.exp(torch.tensor(-max(s - 1, 0) / gamma).double())
                total, weight = total + counts * slot, weight + counts.item()
                if s >= 1:
                    right[s - 1] += (log_q.argmax() == tokens[at]).item()
    return total, weight, right


def full_loss_of(model, w, documents, case):
    """(sum, weight, cross-entropy of the texts' rows, right drafts of slots 1, 2, ...)"""
    block, first, markov, gamma, share, alpha = case
    total, weight, text_sum, right = torch.zeros(()).double(), 0.0, 0.0, torch.zeros(block - 1)
    for tokens, prompt in documents:
        begin = max(prompt, 1)
        starts = list(range(begin, len(tokens) - first))
        text, masks = doubled_logits(model, w, tokens, starts, block, first)
        log_p = text.log_softmax(-1)
        own = -sum(log_p[t - 1, tokens[t]] for t in range(begin, len(tokens)))
        slots, counts = torch.zeros(()).double(), 0.0
        for b, p in enumerate(starts):
            for s in range(first, min(block, len(tokens) - p)):
                logits = masks[b, s - first]
                if markov:
                    logits = logits + w["markov_head.markov_w2.weight"] @ w["markov_head.markov_w1.weight"][
                        tokens[p + s - 1]]
                log_q = logits.log_softmax(-1)
                law = log_p[p + s - 1].detach().exp()
                count = float(torch.exp(torch.tensor(-max(s - 1, 0) / gamma).double()))
                slots = slots + count * (-(1 - share) * log_q[tokens[p + s]] - share * (law * log_q).sum())
                counts += count
                if s >= 1:
                    right[s - 1] += (log_q.argmax() == tokens[p + s]).item()
        learned = len(tokens) - begin
        total = total + alpha * own + slots * learned / counts
        weight += (alpha + 1) * learned
        text_sum += own.item()
    return total, weight, text_sum, right


def make_full(name, case):
    block, first, markov, gamma, share, alpha = case
    model = AutoModelForCausalLM.from_pretrained(ROOT / "tiny" / name, attn_implementation="eager").double().eval()
    c = model.config
    shapes = {"mask_embedding": (c.hidden_size,)}
    for table in ("w1", "w2") if markov else ():
        shapes[f"markov_head.markov_{table}.weight"] = (c.vocab_size, markov)
    start = {n: torch.randn(s).float() for n, s in shapes.items()}
    w = {n: t.double().requires_grad_() for n, t in start.items()}
    documents = [(torch.randint(c.vocab_size, (n,)), prompt) for n, prompt in ((12, 4), (9, 0), (10, 6))]
    total, weight, text, right = full_loss_of(model, w, documents, case)
    total.backward()
    expected = {"tokens": torch.cat([t for t, _ in documents]),
                "ends": torch.tensor([len(t) for t, _ in documents]).cumsum(0),
                "prompts": torch.tensor([p for _, p in documents]), "numbers": torch.tensor([gamma, share, alpha]),
                "design": torch.tensor([block, first, markov]), "loss": total.detach()[None],
                "weight": torch.tensor([weight]), "text": torch.tensor([text]), "right": right}
    for n, t in {**dict(model.named_parameters()), **w}.items():
        along = torch.cos(torch.arange(t.shape[-1]).double())
        expected["gradient." + n] = t.grad if t.ndim == 1 else t.grad @ along
    expected |= {"start." + n: t for n, t in start.items()}
    folder = ROOT / "tidar" / ("full_" + name)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({n: (t if t.dtype == torch.int64 else t.float()).contiguous() for n, t in expected.items()},
              folder / "expected.safetensors")
    print("full", name, total.item(), weight, text, right.tolist())


def main():
    torch.manual_seed(7)
    for name, case in CASES.items():
        block, first, rank, markov, gamma, share = case
        model = AutoModelForCausalLM.from_pretrained(ROOT / "tiny" / name, attn_implementation="eager").double().eval()
        model.requires_grad_(False)
        c = model.config
        weights = {n: (torch.randn(s) * (1.0 if n == "mask_embedding" else 0.7 / s[-1] ** 0.5)).bfloat16()
                   for n, s in shapes_of(model, rank, markov).items()}
        w = {n: t.double().requires_grad_() for n, t in weights.items()}
        for i, layer in enumerate(model.model.layers):
            for part in PROJECTIONS:
                parent, leaf = part.split(".")
                prefix = f"model.layers.{i}.{part}."
                setattr(layer.get_submodule(parent), leaf, Gated(layer.get_submodule(part), w[prefix + "lora_A.weight"],
                                                                 w[prefix + "lora_B.weight"]))
        documents = [(torch.randint(c.vocab_size, (n,)), prompt) for n, prompt in ((13, 4), (9, 0), (11, 6))]
        total, weight, right = loss_of(model, w, documents, case)
        total.backward()
        expected = {"tokens": torch.cat([t for t, _ in documents]),
                    "ends": torch.tensor([len(t) for t, _ in documents]).cumsum(0),
                    "prompts": torch.tensor([p for _, p in documents]),
                    "numbers": torch.tensor([gamma, share]), "loss": total.detach()[None],
                    "weight": torch.tensor([weight]), "right": right}
        for n, t in w.items():
            along = torch.cos(torch.arange(t.shape[-1]).double())
            expected["gradient." + n] = t.grad if t.ndim == 1 else t.grad @ along
        folder = ROOT / "tidar" / name
        folder.mkdir(parents=True, exist_ok=True)
        save_file({n: t.contiguous() for n, t in weights.items()}, folder / "model.safetensors")
        save_file({n: (t if t.dtype == torch.int64 else t.float()).contiguous() for n, t in expected.items()},
                  folder / "expected.safetensors")
        sizes = {"hidden_size": c.hidden_size, "intermediate_size": c.intermediate_size,
                 "num_attention_heads": c.num_attention_heads, "num_key_value_heads": c.num_key_value_heads,
                 "head_dim": getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads,
                 "num_hidden_layers": c.num_hidden_layers, "vocab_size": c.vocab_size}
        described = {"model_type": "forerun_gated_lora", "target": name, "block": block, "first_slot": first,
                     "rank": rank, "markov_rank": markov} | sizes
        (folder / "config.json").write_text(json.dumps(described, indent=2) + "\n")
        print(name, total.item(), weight, right.tolist())
    for name, case in FULL.items():
        torch.manual_seed(11)
        make_full(name, case)


if __name__ == "__main__":
    main()
