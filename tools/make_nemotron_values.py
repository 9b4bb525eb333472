#!/usr/bin/env python3
"""Makes tests/data/nemotron/: a small random model in the layout of Nemotron-Labs-Diffusion (arXiv:2607.05722), its
`linear_spec_lora` adapter as PEFT writes it, and what a plain PyTorch implementation computes with them in float32.

usage: make_nemotron_values.py      (offline; torch, safetensors)

config.json, model.safetensors, tokenizer.json    names encoder.* and diffusion_head, bf16; the tokenizer of tiny/llama
linear_spec_lora/adapter_config.json, adapter_model.safetensors    of o_proj, rank 4, alpha 16
expected.safetensors, float32:
  tokens [n]             longer than the model's original context, so YaRN and the growth of queries matter
  logits [n, vocab]      one causal pass, without the adapter
  draft_P [rows, vocab]  the draft pass of the linear loop after P cached tokens: a copy of token P and rows - 1 masks,
                         which see the cached tokens and each other, all with the adapter
  plain_P [rows, vocab]  the same without the adapter
  prompt, text           greedy decoding after the prompt, the mask token left out
  yarn_C [33]            inverse frequencies of YARN[C], then the size of cosines and sines
"""

import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent / "tests" / "data"
FOLDER = ROOT / "nemotron"
ROPE = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 64,
        "beta_fast": 4.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
CONFIG = {
    "architectures": ["NemotronLabsDiffusionModel"], "model_type": "nemotron_labs_diffusion", "attention_bias": False,
    "mlp_bias": False, "block_size": 8, "bos_token_id": 1, "eos_token_id": 2, "dlm_paradigm": "bidirectional",
    "head_dim": 32, "hidden_act": "silu", "hidden_size": 48, "intermediate_size": 72, "mask_token_id": 100,
    "max_position_embeddings": 256, "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5, "rope_parameters": ROPE, "sliding_window": None, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "vocab_size": 160}
ADAPTER = {"peft_type": "LORA", "task_type": None, "r": 4, "lora_alpha": 16, "target_modules": ["o_proj"], "bias": "none",
           "lora_dropout": 0.0, "fan_in_fan_out": False, "use_dora": False, "use_rslora": False, "rank_pattern": {},
           "alpha_pattern": {}, "modules_to_save": None, "layers_to_transform": None, "inference_mode": True}
DRAFTS_AFTER = (20, 70, 140)
LENGTH, ROWS = 150, 8
# head_dim, then rope parameters: the released ones, others without mscale, whole dimensions or not.
YARN = [
    (64, {"rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
          "mscale": 1.0, "mscale_all_dim": 1.0}),
    (64, {"rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768}),
    (64, {"rope_theta": 1e4, "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.707,
          "mscale_all_dim": 1.0, "truncate": False}),
]


def yarn(dim, rope):
    """(inverse frequencies [dim / 2], size of cosines and sines): arXiv:2309.00071, section 3.4, as transformers has it."""
    base, factor, original = rope["rope_theta"], rope["factor"], rope["original_max_position_embeddings"]

    def edge(turns):  # the dimension pair that turns so often within the original context
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = edge(rope.get("beta_fast", 32.0)), edge(rope.get("beta_slow", 1.0))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    pairs = torch.arange(dim // 2, dtype=torch.float64)
    kept = 1 - ((pairs - low) / max(high - low, 0.001)).clamp(0, 1)
    own = base ** (-2 * pairs / dim)
    frequencies = own * kept + own / factor * (1 - kept)

    def size(m):
        return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1.0

    both = rope.get("mscale") and rope.get("mscale_all_dim")
    return frequencies.float(), size(rope["mscale"]) / size(rope["mscale_all_dim"]) if both else size(1.0)


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]) * weight


def turned(x, cos, sin):  # [rows, heads, dim]; dimension j is paired with j + dim / 2
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def run(w, tokens, positions, seen, adapted=None, adapter=None):
    """Logits of rows. @param seen [rows, rows]: whom a row sees; adapted [rows]: 1 where it meets the adapter"""
    c, dim, rows = CONFIG, CONFIG["head_dim"], len(tokens)
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    frequencies, size = yarn(dim, ROPE)
    angles = positions.float()[:, None, None] * frequencies
    cos, sin = angles.cos() * size, angles.sin() * size
    growth = 1 + ROPE["llama_4_scaling_beta"] * torch.log1p(
        torch.floor(positions.float() / ROPE["original_max_position_embeddings"]))
    h = w["encoder.embed_tokens.weight"][tokens]
    for i in range(c["num_hidden_layers"]):
        p = f"encoder.layers.{i}."
        x = rms(h, w[p + "input_layernorm.weight"])
        q = (x @ w[p + "self_attn.q_proj.weight"].T).view(rows, heads, dim)
        k = (x @ w[p + "self_attn.k_proj.weight"].T).view(rows, kv_heads, dim)
        v = (x @ w[p + "self_attn.v_proj.weight"].T).view(rows, kv_heads, dim)
        q, k = turned(q, cos, sin) * growth[:, None, None], turned(k, cos, sin)
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(dim)
        law = scores.masked_fill(~seen, -math.inf).softmax(-1)
        attended = torch.einsum("hqk,khd->qhd", law, v).reshape(rows, -1)
        out = attended @ w[p + "self_attn.o_proj.weight"].T
        if adapter is not None:
            name = "base_model.model." + p + "self_attn.o_proj.lora_{}.weight"
            more = attended @ adapter[name.format("A")].T @ adapter[name.format("B")].T
            out = out + adapted[:, None] * (ADAPTER["lora_alpha"] / ADAPTER["r"]) * more
        h = h + out
        x = rms(h, w[p + "post_attention_layernorm.weight"])
        gate = x @ w[p + "mlp.gate_proj.weight"].T
        h = h + (gate * gate.sigmoid() * (x @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
    logits = rms(h, w["encoder.norm.weight"]) @ w["diffusion_head.weight"].T
    logits[:, c["mask_token_id"]] = -math.inf
    return logits


def causal(w, tokens):
    n = len(tokens)
    return run(w, tokens, torch.arange(n), torch.ones(n, n).tril().bool())


def draft(w, tokens, after, adapter):
    """The rows of the linear loop's draft pass: cached tokens are causal and meet no adapter."""
    block = torch.full((ROWS,), CONFIG["mask_token_id"])
    block[0] = tokens[after]
    rows = torch.cat([tokens[:after], block])
    n = len(rows)
    seen = torch.ones(n, n).tril().bool()
    seen[after:] = True
    adapted = (torch.arange(n) >= after).float()
    return run(w, rows, torch.arange(n), seen, adapted, adapter)[after:]


def random_weights():
    c = CONFIG
    hidden, width = c["hidden_size"], c["num_attention_heads"] * c["head_dim"]
    kv_width, inner = c["num_key_value_heads"] * c["head_dim"], c["intermediate_size"]
    shapes = {"encoder.embed_tokens.weight": (c["vocab_size"], hidden)}
    adapter = {}
    for i in range(c["num_hidden_layers"]):
        p = f"encoder.layers.{i}."
        shapes |= {p + "input_layernorm.weight": (hidden,), p + "post_attention_layernorm.weight": (hidden,),
                   p + "self_attn.q_proj.weight": (width, hidden), p + "self_attn.k_proj.weight": (kv_width, hidden),
                   p + "self_attn.v_proj.weight": (kv_width, hidden), p + "self_attn.o_proj.weight": (hidden, width),
                   p + "mlp.gate_proj.weight": (inner, hidden), p + "mlp.up_proj.weight": (inner, hidden),
                   p + "mlp.down_proj.weight": (hidden, inner)}
        for part, shape in (("A", (ADAPTER["r"], width)), ("B", (hidden, ADAPTER["r"]))):
            adapter[f"base_model.model.{p}self_attn.o_proj.lora_{part}.weight"] = (0.15 * torch.randn(shape)).bfloat16()
    shapes |= {"encoder.norm.weight": (hidden,), "diffusion_head.weight": (c["vocab_size"], hidden)}
    weights = {n: (1 + 0.3 * torch.randn(s) if len(s) == 1 else 0.2 * torch.randn(s)).bfloat16() for n, s in shapes.items()}
    return weights, adapter


def main():
    torch.manual_seed(5)
    weights, adapter = random_weights()
    (FOLDER / "linear_spec_lora").mkdir(parents=True, exist_ok=True)
    (FOLDER / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (FOLDER / "linear_spec_lora" / "adapter_config.json").write_text(json.dumps(ADAPTER, indent=2) + "\n")
    save_file(weights, FOLDER / "model.safetensors", metadata={"format": "pt"})
    save_file(adapter, FOLDER / "linear_spec_lora" / "adapter_model.safetensors", metadata={"format": "pt"})
    shutil.copy(ROOT / "tiny" / "llama" / "tokenizer.json", FOLDER / "tokenizer.json")
    w = {n: t.float() for n, t in weights.items()}
    a = {n: t.float() for n, t in adapter.items()}
    tokens = torch.randint(3, 99, (LENGTH,))
    expected = {"tokens": tokens.float(), "logits": causal(w, tokens)}
    for after in DRAFTS_AFTER:
        expected[f"draft_{after}"] = draft(w, tokens, after, a)
        expected[f"plain_{after}"] = draft(w, tokens, after, None)
    prompt = tokens[:40]
    text, margin = prompt, math.inf
    for _ in range(60):
        best = causal(w, text)[-1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        text = torch.cat([text, best.indices[:1]])
    expected |= {"prompt": prompt.float(), "text": text[40:].float()}
    for i, (dim, rope) in enumerate(YARN):
        frequencies, size = yarn(dim, rope)
        expected[f"yarn_{i}"] = torch.cat([frequencies, torch.tensor([size])])
    save_file({n: t.contiguous() for n, t in expected.items()}, FOLDER / "expected.safetensors")
    moved = [(expected[f"draft_{p}"] - expected[f"plain_{p}"]).nan_to_num().abs().max().item() for p in DRAFTS_AFTER]
    print("least margin of the text", margin, "distinct", len(set(text[40:].tolist())), "the adapter moves logits by", moved)


if __name__ == "__main__":
    main()
