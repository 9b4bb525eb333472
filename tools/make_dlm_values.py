#!/usr/bin/env python3
"""Makes tests/data/dlm/: the loss that a bidirectional diffusion language model is trained with as a drafter, and its
gradient by every weight, by PyTorch's autograd (float64) through transformers' decoders: for every block a text up to
its anchor and masks behind it, of which every row sees every other, predictions shifted as in Dream.

usage: make_dlm_values.py      (offline; torch, transformers, safetensors)

CASE.safetensors, for tests/data/tiny/CASE's first two blocks, its last norm times 0.3; int64 and float32:
  tokens, ends, prompts [documents]   as in a token shard
  numbers [3]                         gamma, share of the target's law, places of a block
  start.mask_embedding [hidden]       the mask vector
  loss, weight [1]                    sums over the blocks at every position of the answers
  right [block]                       blocks whose draft of place 1, 2, ... is the token that came
  gradient.NAME                       by a vector; by a matrix: times the vector cos(0), cos(1), ... (rows remain)
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parent.parent / "tests" / "data"
LAYERS, SPREAD = 2, 0.3
CASES = {"llama_plain": (4, 2.5, 0.3), "qwen2": (3, 4.0, 1.0), "qwen3": (5, 1.5, 0.0)}  # block, gamma, share


def decoder(name):
    path = ROOT / "tiny" / name
    return AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager").double().eval()


def places(model, mask, text, block):
    """[block, vocab] logits of the places after a text: of its last row and all masks but the last."""
    rows = torch.cat([model.model.embed_tokens(text).detach(), mask.expand(block, -1)])[None]
    n = rows.shape[1]
    seen = torch.zeros(1, 1, n, n).double()
    hidden = model.model(inputs_embeds=rows, position_ids=torch.arange(n)[None], attention_mask=seen).last_hidden_state[0]
    head = model.lm_head.weight.detach()
    return hidden[len(text) - 1:len(text) - 1 + block] @ head.T


def loss_of(model, mask, target, documents, case):
    block, gamma, share = case
    total, weight, right = torch.zeros(()).double(), 0.0, torch.zeros(block)
    for tokens, prompt in documents:
        laws = target(tokens[None]).logits[0].detach().softmax(-1)
        for p in range(max(prompt, 1), len(tokens) - 1):
            log_q = places(model, mask, tokens[:p + 1], block).log_softmax(-1)
            for k in range(min(block, len(tokens) - 1 - p)):
                token = tokens[p + 1 + k]
                counts = torch.exp(torch.tensor(-k / gamma).double())
                total = total + counts * (-(1 - share) * log_q[k, token] - share * (laws[p + k] * log_q[k]).sum())
                weight += counts.item()
                right[k] += (log_q[k].argmax() == token).item()
    return total, weight, right


def make(name, case):
    target, model = decoder(name), decoder(name)
    model.model.layers = model.model.layers[:LAYERS]
    model.model.norm.weight.data *= SPREAD
    c = model.config
    mask = torch.randn(c.hidden_size).float().double().requires_grad_()
    documents = [(torch.randint(c.vocab_size, (n,)), prompt) for n, prompt in ((13, 4), (9, 0), (11, 6))]
    total, weight, right = loss_of(model, mask, target, documents, case)
    total.backward()
    block, gamma, share = case
    expected = {"tokens": torch.cat([t for t, _ in documents]),
                "ends": torch.tensor([len(t) for t, _ in documents]).cumsum(0),
                "prompts": torch.tensor([p for _, p in documents]), "numbers": torch.tensor([gamma, share, block]),
                "start.mask_embedding": mask.detach(), "loss": total.detach()[None], "weight": torch.tensor([weight]),
                "right": right}
    learned = {n: w for n, w in model.named_parameters() if n.startswith(("model.layers.", "model.norm."))}
    for n, w in {**learned, "mask_embedding": mask}.items():
        along = torch.cos(torch.arange(w.shape[-1]).double())
        expected["gradient." + n] = w.grad if w.ndim == 1 else w.grad @ along
    folder = ROOT / "dlm"
    folder.mkdir(parents=True, exist_ok=True)
    save_file({n: (t if t.dtype == torch.int64 else t.float()).contiguous() for n, t in expected.items()},
              folder / f"{name}.safetensors")
    print(name, total.item(), weight, right.tolist())


if __name__ == "__main__":
    for number, (key, value) in enumerate(CASES.items()):
        torch.manual_seed(3 + number)
        make(key, value)
