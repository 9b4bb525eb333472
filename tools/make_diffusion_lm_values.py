#!/usr/bin/env python3
"""Makes tests/data/diffusion_lm/{dream,llada,llada_moe}/: tiny random diffusion language models, and what PyTorch computes with them.

usage: make_diffusion_lm_values.py      (run with tools/requirements.txt installed; offline)

The networks are written out below after the published modelling code (Dream-org/Dream-v0-Instruct-7B, GSAI-ML/LLaDA-8B-
Instruct, inclusionAI/LLaDA-MoE-7B-A1B-Instruct), the sampling loops after generation_utils.py and generate.py there; the mask token is never predicted. Each folder
holds config.json and model.safetensors with the published names, model.gguf as llama.cpp's converter writes it,
tokenizer.json, and expected.safetensors:
  tokens [n], places [m]  a text, and places after it: ids, -1 where masked
  logits [m, vocab]       of the places, float32
  RULE [m]                ids after a whole run of the rule over masked places; *_steps: their number, *_block: of a block
"""

import json
import pathlib
import shutil

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, MODEL_ARCH, get_tensor_name_map
from safetensors.torch import save_file

import tiny_gguf

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
VOCAB, MASK, EPS = 160, 157, 1e-3
SEED = 11  # of forerun's random numbers, where a rule draws any
SIZES = {"dream": {"hidden": 32, "heads": 4, "kv": 2, "mlp": 48, "layers": 2, "eps": 1e-6, "theta": 1e6},
         "llada": {"hidden": 32, "heads": 2, "kv": 2, "mlp": 40, "layers": 2, "eps": 1e-5, "theta": 5e5},
         "llada_moe": {"hidden": 32, "heads": 2, "kv": 2, "mlp": 24, "layers": 2, "eps": 1e-5, "theta": 5e4, "experts": 6,
                       "used": 2}}


def names(kind):
    """(ours: published name without .weight), by layer and at the ends."""
    if kind != "llada":
        layer = {"attn_norm": "input_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
                 "o": "self_attn.o_proj", "mlp_norm": "post_attention_layernorm"}
        if kind == "dream":
            layer |= {"gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
        else:
            layer |= {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm", "router": "mlp.gate"}
            for e in range(SIZES[kind]["experts"]):
                layer |= {f"{m}{e}": f"mlp.experts.{e}.{m}_proj" for m in ("gate", "up", "down")}
        return "model.layers.{}.", layer, {"embed": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}
    layer = {"attn_norm": "attn_norm", "q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "attn_out", "mlp_norm": "ff_norm",
             "gate": "ff_proj", "up": "up_proj", "down": "ff_out"}
    ends = {"embed": "model.transformer.wte", "norm": "model.transformer.ln_f", "head": "model.transformer.ff_out"}
    return "model.transformer.blocks.{}.", layer, ends


def random_state(kind):
    s = SIZES[kind]
    width = s["hidden"] // s["heads"]
    prefix, layer, ends = names(kind)
    shapes = {"q": (s["heads"] * width, s["hidden"]), "k": (s["kv"] * width, s["hidden"]),
              "v": (s["kv"] * width, s["hidden"]), "o": (s["hidden"], s["heads"] * width),
              "gate": (s["mlp"], s["hidden"]), "up": (s["mlp"], s["hidden"]), "down": (s["hidden"], s["mlp"]),
              "router": (s.get("experts", 0), s["hidden"])}
    state = {ends["embed"] + ".weight": torch.randn(VOCAB, s["hidden"]),
             ends["norm"] + ".weight": 1.0 + 0.3 * torch.randn(s["hidden"]),
             ends["head"] + ".weight": 0.4 * torch.randn(VOCAB, s["hidden"])}
    for i in range(s["layers"]):
        for ours, theirs in layer.items():
            name = prefix.format(i) + theirs
            ours = ours.rstrip("0123456789")
            if ours in shapes:
                state[name + ".weight"] = 0.3 * torch.randn(shapes[ours])
            else:
                state[name + ".weight"] = 1.0 + 0.3 * torch.randn(width if ours in ("q_norm", "k_norm") else s["hidden"])
            if kind == "dream" and ours in "qkv":
                state[name + ".bias"] = 0.5 * torch.randn(shapes[ours][0])
    return state


class Network:
    def __init__(self, kind, state):
        self.kind, self.state = kind, state
        self.prefix, self.layer, self.ends = names(kind)

    def linear(self, name, x):
        return torch.nn.functional.linear(x, self.state[name + ".weight"], self.state.get(name + ".bias"))

    def norm(self, name, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + SIZES[self.kind]["eps"]) * self.state[name + ".weight"]

    def mlp(self, at, x):
        """Of a layer whose names are `at`."""
        def one(e):
            gate, up = self.linear(at[f"gate{e}"], x), self.linear(at[f"up{e}"], x)
            return self.linear(at[f"down{e}"], torch.nn.functional.silu(gate) * up)

        if self.kind != "llada_moe":
            return one("")
        law = torch.softmax(self.linear(at["router"], x).float(), -1)
        weights, chosen = law.topk(SIZES[self.kind]["used"], -1)  # not divided by their sum
        share = torch.zeros_like(law).scatter(1, chosen, weights)
        return sum(share[:, e:e + 1] * one(e) for e in range(law.shape[1]))

    def logits(self, ids):
        """[n, vocab] by rows, not shifted; every row sees every other."""
        s = SIZES[self.kind]
        n, width = len(ids), s["hidden"] // s["heads"]
        angles = torch.outer(torch.arange(n).float(), s["theta"] ** (-torch.arange(0, width, 2).float() / width))
        cos, sin = torch.cat([angles] * 2, -1).cos(), torch.cat([angles] * 2, -1).sin()

        def rotated(x):
            half = torch.cat([-x[..., width // 2:], x[..., :width // 2]], -1)
            return x * cos + half * sin

        h = self.state[self.ends["embed"] + ".weight"][ids]
        for i in range(s["layers"]):
            at = {k: self.prefix.format(i) + v for k, v in self.layer.items()}
            x = self.norm(at["attn_norm"], h)
            q, k, v = (self.linear(at[p], x).view(n, -1, width).transpose(0, 1) for p in "qkv")
            if self.kind == "llada_moe":
                q, k = self.norm(at["q_norm"], q), self.norm(at["k_norm"], k)
            q, k = rotated(q), rotated(k)
            k, v = (t.repeat_interleave(s["heads"] // s["kv"], 0) for t in (k, v))
            weights = torch.softmax(q @ k.transpose(1, 2) / width**0.5, -1)
            h = h + self.linear(at["o"], (weights @ v).transpose(0, 1).reshape(n, -1))
            x = self.norm(at["mlp_norm"], h)
            h = h + self.mlp(at, x)
        return self.linear(self.ends["head"], self.norm(self.ends["norm"], h))

    def places(self, ids):
        """[n, vocab]: row i predicts token i; the mask token never."""
        out = self.logits(ids)
        if self.kind == "dream":
            out = torch.cat([out[:1], out[:-1]])
        out[:, MASK] = -torch.inf
        return out


def philox(counter, key):
    """Philox4x32-10, the numbers of forerun's core/rng_key.h."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def coin(step, position):
    """Uniform number `step` of purpose `shared noise` (4) at a position."""
    w = philox([4 << 28 | step, position, 0, 0], [SEED, 0])
    return ((w[0] << 32 | w[1]) >> 11) * 2.0**-53


def dream_run(network, text, length, steps, rule):
    """DreamGenerationMixin._sample at temperature 0, without top-p and top-k."""
    x = torch.cat([text, torch.full((length,), MASK)])
    timesteps = torch.linspace(1, EPS, steps + 1)
    for i in range(steps):
        mask_index = x == MASK
        mask_logits = network.places(x)[mask_index]
        t, s = timesteps[i], timesteps[i + 1]
        probs = torch.softmax(mask_logits, dim=-1)
        confidence, x0 = probs.max(dim=-1)
        if rule == "origin":
            p_transfer = 1 - s / t if i < steps - 1 else 1
            where = mask_index.nonzero().flatten()
            for row, position in enumerate(where.tolist()):
                if coin(i, position) < float(p_transfer):
                    x[position] = x0[row]
            continue
        if rule == "topk_margin":
            ordered = torch.sort(probs, dim=-1, descending=True).values
            confidence = ordered[:, 0] - ordered[:, 1]
        if rule == "entropy":
            confidence = torch.sum(probs * torch.log(probs + 1e-10), dim=-1)
        masked = mask_index.sum()
        count = int(masked * (1 - s / t)) if i < steps - 1 else int(masked)
        full = torch.full(x.shape, -torch.inf)
        full[mask_index] = confidence
        if count > 0:
            chosen = torch.topk(full, count).indices
            filled = torch.full_like(x, MASK)
            filled[mask_index] = x0
            x[chosen] = filled[chosen]
    return x[len(text):]


def llada_run(network, text, length, steps, block):
    """generate of generate.py at temperature 0, remasking low_confidence."""
    x = torch.cat([text, torch.full((length,), MASK)])
    blocks = length // block
    steps //= blocks
    for b in range(blocks):
        end = len(text) + (b + 1) * block
        masked = int((x[end - block:end] == MASK).sum())
        counts = [masked // steps + (i < masked % steps) for i in range(steps)]
        for i in range(steps):
            mask_index = x == MASK
            logits = network.places(x)
            x0 = logits.argmax(-1)
            p = torch.softmax(logits.double(), -1).gather(1, x0[:, None]).squeeze(1)
            p[end:] = -torch.inf
            confidence = torch.where(mask_index, p, -torch.inf)
            chosen = torch.topk(confidence, counts[i]).indices
            x[chosen] = torch.where(mask_index, x0, x)[chosen]
    return x[len(text):]


def config_of(kind):
    s = SIZES[kind]
    if kind == "llada_moe":
        return {"architectures": ["LLaDAMoEModelLM"], "model_type": "llada_moe", "hidden_act": "silu",
                "hidden_size": s["hidden"], "expert_intermediate_size": s["mlp"], "dense_intermediate_size": 99,
                "num_experts": s["experts"], "num_experts_per_tok": s["used"], "num_hidden_layers": s["layers"],
                "num_attention_heads": s["heads"], "num_key_value_heads": s["kv"], "vocab_size": VOCAB,
                "mask_token_id": MASK, "eos_token_id": 2, "pad_token_id": 2, "max_position_embeddings": 256,
                "rms_norm_eps": s["eps"], "rope_theta": s["theta"], "tie_word_embeddings": False, "qk_layernorm": True,
                "moe_router_score_function": "softmax", "norm_topk_prob": None, "shared_expert_intermediate_size": None}
    if kind == "dream":
        return {"architectures": ["DreamModel"], "model_type": "Dream", "hidden_act": "silu", "hidden_size": s["hidden"],
                "intermediate_size": s["mlp"], "num_hidden_layers": s["layers"], "num_attention_heads": s["heads"],
                "num_key_value_heads": s["kv"], "vocab_size": VOCAB, "mask_token_id": MASK, "eos_token_id": 2,
                "bos_token_id": 1, "pad_token_id": 2, "max_position_embeddings": 256, "rms_norm_eps": s["eps"],
                "rope_theta": s["theta"], "rope_scaling": None, "tie_word_embeddings": False, "use_sliding_window": False,
                "torch_dtype": "float32"}
    return {"architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": s["hidden"], "n_heads": s["heads"],
            "n_kv_heads": s["kv"], "n_layers": s["layers"], "mlp_hidden_size": s["mlp"], "vocab_size": VOCAB,
            "embedding_size": VOCAB, "mask_token_id": MASK, "eos_token_id": 2, "max_sequence_length": 256,
            "rms_norm_eps": s["eps"], "rope_theta": s["theta"], "weight_tying": False, "include_bias": False,
            "block_type": "llama", "activation_type": "silu"}


def write_gguf(path, kind, state):
    s = SIZES[kind]
    writer = GGUFWriter(path, kind.replace("_", "-"))
    writer.add_context_length(256)
    writer.add_embedding_length(s["hidden"])
    writer.add_block_count(s["layers"])
    writer.add_feed_forward_length(99 if kind == "llada_moe" else s["mlp"])
    if kind == "llada_moe":
        writer.add_expert_count(s["experts"])
        writer.add_expert_used_count(s["used"])
        writer.add_expert_feed_forward_length(s["mlp"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv"])
    writer.add_layer_norm_rms_eps(s["eps"])
    writer.add_rope_freq_base(s["theta"])
    writer.add_causal_attention(False)
    if kind != "dream":
        writer.add_bool("diffusion.shift_logits", False)
    writer.add_uint32("tokenizer.ggml.mask_token_id", MASK)
    tokens, merges, kinds = tiny_gguf.tiny_vocabulary(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    archs = {"dream": MODEL_ARCH.DREAM, "llada": MODEL_ARCH.LLADA, "llada_moe": MODEL_ARCH.LLADA_MOE}
    table = get_tensor_name_map(archs[kind], s["layers"])
    merged = {}  # all experts of a layer are one tensor
    for name in [n for n in state if ".experts." in n]:
        layer, _, part = name.partition(".experts.")
        merged.setdefault(f"{layer}.experts.{part.partition('.')[2]}", []).append(state[name])
    plain = {n: v for n, v in state.items() if ".experts." not in n}
    for name, value in {**plain, **{n: torch.stack(v) for n, v in merged.items()}}.items():
        stored = value.numpy()
        if kind == "llada" and name.endswith(("q_proj.weight", "k_proj.weight")):
            stored = tiny_gguf.permute_halves(stored, s["heads"] if "q_proj" in name else s["kv"])
        writer.add_tensor(table.get_name(name, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(stored),
                          raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(kind, seed):
    torch.manual_seed(seed)
    folder = ROOT / "diffusion_lm" / kind
    folder.mkdir(parents=True, exist_ok=True)
    state = random_state(kind)
    network = Network(kind, state)
    (folder / "config.json").write_text(json.dumps(config_of(kind), indent=2, sort_keys=True) + "\n")
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(ROOT / "tiny" / "qwen2" / "tokenizer.json", folder)
    write_gguf(folder / "model.gguf", kind, state)
    text = torch.randint(3, 150, (9,))
    places = torch.full((12,), -1)
    places[4], places[9] = 17, 60
    logits = network.places(torch.cat([text, torch.where(places < 0, MASK, places)]))[len(text):]
    expected = {"tokens": text.float(), "places": places.float(), "logits": torch.where(logits.isinf(), -1e30, logits)}
    if kind == "dream":
        for rule in ("origin", "maskgit_plus", "topk_margin", "entropy"):
            for steps in (5, 16):
                expected[f"{rule}_{steps}"] = dream_run(network, text, 16, steps, rule).float()
    else:
        for steps, block in ((6, 16), (8, 8), (12, 4)):
            expected[f"low_confidence_{steps}_{block}"] = llada_run(network, text, 16, steps, block).float()
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    print(kind, {k: v.int().tolist() for k, v in expected.items() if k not in ("logits",)})


if __name__ == "__main__":
    with torch.no_grad():
        make("dream", 1)
        make("llada", 2)
        make("llada_moe", 3)
