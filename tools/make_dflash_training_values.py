#!/usr/bin/env python3
"""Makes tests/data/dflash/training/: the loss that a DFlash network is trained with, and its gradient by every weight,
in plain PyTorch (float64) on top of transformers' states of the tiny target tests/data/tiny/llama_plain.

usage: make_dflash_training_values.py      (offline; torch, transformers, safetensors)

config.json, model.safetensors   a random network with a Markov and a confidence head and a reduced vocabulary, bf16
expected.safetensors, int64 and float32:
  tokens, ends, prompts [documents]       as in a token shard
  CASE.options [6]                        own position, Markov, confidence, reduced vocabulary (0 or 1), whether
                                          confidence sees the Markov rows, slot state
  CASE.numbers [3]                        gamma, share of the target's law, weight of the confidence loss
  CASE.loss, CASE.weight [1]              sums over all blocks that fit
  CASE.gradient.NAME                      by a vector; by a matrix: times the vector cos(0), cos(1), ... (rows remain)
"""

import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM

import make_dflash_values as base

TARGET = base.ROOT.parent / "tiny" / "llama_plain"
HIDDEN, VOCAB, DRAFTED, RANK, BLOCK, FEATURES = 48, 176, 60, 3, 4, [0, 1]
CASES = {  # the options, then the numbers, in the order above
    "everything": ((0, 1, 1, 1, 1, 1), (2.5, 0.3, 0.7)),
    "plain": ((1, 0, 0, 0, 0, 0), (4.0, 0.0, 1.0)),
    "law": ((0, 0, 1, 0, 0, 0), (1.5, 1.0, 1.0)),
    "own_position": ((1, 1, 1, 1, 0, 1), (7.0, 0.5, 0.25)),
}


def target_states(model, tokens):
    """Outputs of the blocks FEATURES side by side, and the target's logits; [n, ...]."""
    seen = {}
    hooks = [model.model.layers[i].register_forward_hook(
        lambda _, __, out, i=i: seen.update({i: out[0] if isinstance(out, tuple) else out})) for i in FEATURES]
    with torch.no_grad():
        logits = model(tokens[None]).logits[0]
    for hook in hooks:
        hook.remove()
    return torch.cat([seen[i].view(len(tokens), HIDDEN) for i in FEATURES], 1), logits


def loss_of(case, w, target, documents, kept):
    """(sum, weight) over every anchor of every answer, slot by slot."""
    (own_position, markov, confident, reduced, sees_markov, _), (gamma, law, share) = case
    kept = kept if reduced else torch.arange(VOCAB)
    embedding, head = target.model.embed_tokens.weight.detach(), target.lm_head.weight.detach()[kept]
    states = [target_states(target, tokens) for tokens, _ in documents]
    lengths = [len(tokens) for tokens, _ in documents]
    owner = torch.arange(len(documents)).repeat_interleave(torch.tensor(lengths))
    positions = torch.cat([torch.arange(n) for n in lengths])
    # An anchor is a token of the answer that has one behind it.
    blocks = [(d, p) for d, (tokens, prompt) in enumerate(documents) for p in range(max(prompt, 1), len(tokens) - 1)]
    places = torch.tensor([sum(lengths[:d]) + p for d, p in blocks])
    anchors = torch.stack([documents[d][0][p] for d, p in blocks])
    hidden = base.masked_pass(w, embedding, torch.cat([f for f, _ in states]), owner, positions, places, anchors)
    total, weight = torch.zeros(()).double(), 0.0
    for b, (d, p) in enumerate(blocks):
        tokens = documents[d][0]
        for k in range(BLOCK - own_position):
            at = p + 1 + k
            if at >= len(tokens) or tokens[at] not in kept:
                break
            h = hidden[b, k + own_position]
            logits = h @ head.T
            row = w["markov_head.markov_w1.weight"][tokens[at - 1]]
            if markov:
                logits = logits + w["markov_head.markov_w2.weight"] @ row
            log_q = logits.log_softmax(-1)
            whole = states[d][1][at - 1].log_softmax(-1)[kept].exp()
            log_p = states[d][1][at - 1][kept].log_softmax(-1)
            label = (kept == tokens[at]).nonzero().item()
            slot = -(1 - law) * log_q[label] - law * (log_p.exp() * log_q).sum()
            if confident:
                inputs = torch.cat([h.detach(), row]) if sees_markov else h.detach()
                said = w["confidence_head.proj.weight"][0, :len(inputs)] @ inputs + w["confidence_head.proj.bias"][0]
                # What is kept of a draft: the target's law is that over its whole vocabulary.
                true = torch.minimum(whole, log_q.exp()).sum().detach()
                slot = slot + share * F.binary_cross_entropy_with_logits(said, true)
            counts = torch.exp(torch.tensor(-k / gamma).double())
            total, weight = total + counts * slot, weight + counts.item()
    return total, weight


def main():
    torch.manual_seed(5)
    base.SMALL |= {"hidden_size": HIDDEN, "vocab_size": VOCAB, "num_target_layers": 3}
    base.SMALL["dflash_config"] |= {"target_layer_ids": FEATURES, "draft_vocab_size": DRAFTED, "block_size": BLOCK,
                                    "sample_from_anchor": True, "slot_state": True}
    target = AutoModelForCausalLM.from_pretrained(TARGET, attn_implementation="eager").double().eval()
    shapes = base.small_shapes() | {"markov_head.markov_w1.weight": (VOCAB, RANK),
                                    "markov_head.markov_w2.weight": (DRAFTED, RANK),
                                    "slot_state.weight": (HIDDEN, HIDDEN)}
    weights = {n: (1.0 + 0.3 * torch.randn(s) if n.endswith("norm.weight") else torch.randn(s) * 0.8 / s[-1] ** 0.5)
               .bfloat16().double() for n, s in shapes.items()}
    kept = torch.randperm(VOCAB)[:DRAFTED].sort().values
    documents = []
    for n, prompt in ((13, 4), (9, 0), (11, 6)):
        tokens = kept[torch.randint(DRAFTED, (n,))]
        outside = torch.rand(n) < 0.15
        documents.append((torch.where(outside, torch.randint(VOCAB, (n,)), tokens), prompt))
    answers = torch.cat([tokens[prompt:] for tokens, prompt in documents])
    assert 2 <= (~torch.isin(answers, kept)).sum() <= 8  # some blocks end at a token that cannot be drafted
    expected = {"tokens": torch.cat([t for t, _ in documents]),
                "ends": torch.tensor([len(t) for t, _ in documents]).cumsum(0),
                "prompts": torch.tensor([p for _, p in documents])}
    for name, case in CASES.items():
        w = {n: t.clone().requires_grad_() for n, t in weights.items() if case[0][5] or n != "slot_state.weight"}
        total, weight = loss_of(case, w, target, documents, kept)
        total.backward()
        expected |= {f"{name}.options": torch.tensor(case[0]), f"{name}.numbers": torch.tensor(case[1]),
                     f"{name}.loss": total.detach()[None], f"{name}.weight": torch.tensor([weight])}
        for n, t in w.items():
            if t.grad is not None:
                g = t.grad[:, :HIDDEN] if n == "confidence_head.proj.weight" and not case[0][4] else t.grad
                along = torch.cos(torch.arange(g.shape[-1]).double())
                expected[f"{name}.gradient.{n}"] = g if g.ndim == 1 else g @ along
    base.write("training", {"architectures": ["DFlashDraftModel"], "model_type": "qwen3"} | base.SMALL,
               weights | {"d2t": kept - torch.arange(DRAFTED)}, expected)


if __name__ == "__main__":
    main()
