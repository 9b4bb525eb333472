#!/usr/bin/env python3
"""Makes tests/data/dflash/: small random DFlash checkpoints and what the published implementations compute with them.

usage: make_dflash_values.py      (offline; pip install --no-deps dflash==0.1.0 speculators==0.9.0 transformers==5.15.0
                                   beside torch, safetensors, httpx, loguru, pydantic-settings)

target.safetensors          the target's embedding and head, [vocab, hidden]
CASE/config.json, model.safetensors      a checkpoint as its library writes it, bf16
CASE/expected.safetensors                float32 and int64:
  zlab_*         features [rows, F * hidden]; starts, anchors [rounds]; logits_R [block, vocab] of round R, computed
                 with a cache that was cropped after every round; whole_R the same without a cache;
                 zlab_dflash2 also what its selector makes of round R at temperature 1.3: candidates_R and laws_R
                 [block - 1, top_k], path_R [block - 1], and greedy_R, the path at temperature 0
  speculators_*  features of two documents, lengths [2], places [anchors] in the packed rows, anchors [anchors]
                 (tokens); hidden [anchors, block, hidden], logits [anchors, block, draft vocabulary];
                 dspark* also previous [anchors, block] and confidence [anchors, block]; speculators_dflash2 also
                 previous, and candidates, scores [anchors, block, top_k]
  gradients*     a loss over several blocks of two documents, and its gradient by every weight (plain PyTorch below)
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import types

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "dflash"
HIDDEN, VOCAB = 24, 64
BODY = {"model_type": "qwen3", "hidden_size": HIDDEN, "intermediate_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": VOCAB, "rms_norm_eps": 1e-6, "hidden_act": "silu",
        "attention_bias": False, "tie_word_embeddings": False, "max_position_embeddings": 256}
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}


def stub_what_models_do_not_need():
    """speculators imports its trainer's data path (servers, data sets) at module level; its networks use none of it."""
    import transformers.models.qwen3.modeling_qwen3  # noqa: F401  looks for optional packages: before the stand-ins

    absent = [n for n in ("openai", "datasets", "aiohttp", "hs_connectors") if importlib.util.find_spec(n) is None]
    sys.meta_path.append(StandIns(absent))


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds absent packages and whatever lies in them; any name of theirs is an empty class."""

    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        known = name.split(".")[0] in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def randomise(model):
    """bf16 values large enough that every part matters."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape)
            if name.endswith("norm.weight"):
                p.copy_((1.0 + 0.3 * noise).bfloat16())
            elif "embed" in name or name.endswith(("markov_w1.weight", "bias")):
                p.copy_(noise.bfloat16())
            else:
                p.copy_((noise * 1.5 / p.shape[-1] ** 0.5).bfloat16())


def write(case, config, weights, expected):
    folder = ROOT / case
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    stored = {n: t.bfloat16() if t.is_floating_point() else t for n, t in weights.items()}
    for n, t in stored.items():
        assert not t.is_floating_point() or torch.equal(t.float(), weights[n].float()), n
    save_file({n: t.contiguous() for n, t in stored.items()}, folder / "model.safetensors")
    save_file({n: t.detach().contiguous() if t.dtype == torch.int64 else t.detach().float().contiguous()
               for n, t in expected.items()}, folder / "expected.safetensors")


def zlab(case, config, target, seed, second=False):
    """Three rounds of dflash 0.1.0's own decoding steps: draft, crop, commit some rows, draft again."""
    from dflash import model as package
    from transformers import Qwen3Config

    torch.manual_seed(seed)
    kind = package.DFlash2DraftModel if second else package.DFlashDraftModel
    config = {"architectures": [kind.__name__]} | BODY | config
    as_class = Qwen3Config(**config)
    model = kind(as_class).eval()
    randomise(model)
    rows, starts, anchors = 17, [11, 12, 17], [5, 40, 63]
    features = torch.randn(rows, len(model.target_layer_ids) * HIDDEN)
    embedding, head = target["embed_tokens.weight"].float(), torch.nn.Linear(HIDDEN, VOCAB, bias=False)
    head.weight.data = target["lm_head.weight"].float()
    scale = float(package._draft_value(as_class, "input_embedding_scale", 1.0))

    def draft(cache, first, start, anchor):
        block = torch.full((1, model.block_size), model.mask_token_id)
        block[0, 0] = anchor
        hidden = model(target_hidden=features[None, first:start], noise_embedding=F.embedding(block, embedding) * scale,
                       position_ids=torch.arange(first, start + model.block_size)[None], past_key_values=cache,
                       use_cache=cache is not None)
        return model.compute_logits(hidden, head)[0], hidden[:, 1:]

    expected = {"features": features, "starts": torch.tensor(starts), "anchors": torch.tensor(anchors),
                "feature_layers": torch.tensor(model.target_layer_ids)}
    with torch.inference_mode():
        cache, first = package._make_cache(as_class), 0
        for r, (start, anchor) in enumerate(zip(starts, anchors)):
            expected[f"logits_{r}"], hidden = draft(cache, first, start, anchor)
            package._crop_to(cache, start)
            expected[f"whole_{r}"], _ = draft(None, 0, start, anchor)
            if second:
                expected |= {f"{n}_{r}": t[0] for n, t in selected(model, hidden, anchor, head).items()}
            assert torch.allclose(expected[f"logits_{r}"], expected[f"whole_{r}"], atol=1e-4), case
            first = start
    # As published: no ".weight" behind the codebooks (from_pretrained adds it).
    write(case, config, {n.replace("codebook.weight", "codebook"): t for n, t in model.state_dict().items()}, expected)
    return model, config


def selected(model, hidden, anchor, head):
    path, candidates, laws = model.propose(hidden, torch.tensor([anchor]), head, 1.3)
    greedy, *_ = model.propose(hidden, torch.tensor([anchor]), head, 0.0)
    return {"path": path, "candidates": candidates, "laws": laws, "greedy": greedy}


def speculators(case, body, options, target, seed, weights=None, kind="DFlash", own_matrices=True):
    """The training forward of speculators 0.9.0 over blocks of two documents, anchors where the loss mask is."""
    import speculators as package
    from speculators.models.dspark import core as dspark_core
    from transformers import Qwen3Config

    torch.manual_seed(seed)
    layers = Qwen3Config(**BODY | ROPE | body)
    layers._attn_implementation = "eager"
    config = getattr(package, kind + "SpeculatorConfig")(transformer_layer_config=layers, **options)
    model = getattr(package, kind + "DraftModel")(config).eval()
    randomise(model)
    if weights is not None:
        assert not model.load_state_dict(weights, strict=False).unexpected_keys
    model.embed_tokens.weight.data = target["embed_tokens.weight"].float()
    if model.use_draft_vocab:
        t2d = torch.zeros(VOCAB, dtype=torch.bool)
        t2d[torch.randperm(VOCAB)[:config.draft_vocab_size]] = True
        kept = t2d.nonzero().flatten()
        model.load_vocab_mappings(t2d, kept - torch.arange(len(kept)))
    else:
        model.lm_head.weight.data = target["lm_head.weight"].float()

    lengths, places = [13, 16], [1, 4, 6, 15, 18, 22]  # in the packed rows
    total, block, wide = sum(lengths), config.block_size, len(config.aux_hidden_state_layer_ids) * HIDDEN
    features, tokens = torch.randn(1, total + block, wide), torch.randint(VOCAB, (1, total + block))
    documents = torch.tensor([[0] * lengths[0] + [1] * lengths[1] + [-1] * block])
    positions = torch.cat([torch.arange(n) for n in (*lengths, block)])[None]
    mask = torch.zeros(1, total + block)
    mask[0, places] = 1
    inputs = (features, tokens, mask, torch.zeros(1, total + block, HIDDEN), documents, positions)
    expected = {"features": features[0, :total], "lengths": torch.tensor(lengths), "places": torch.tensor(places),
                "anchors": tokens[0, places]}
    with torch.inference_mode():
        hidden, logits, *_ = model._backbone_forward(*inputs, max_anchors=len(places))
        blocks = torch.stack([tokens[0, p:p + block] for p in places])
        previous = blocks if config.sample_from_anchor else torch.cat([blocks[:, :1], blocks[:, :-1]], 1)
        if kind == "DFlash2":
            candidates, scores = model.candidate_selector.select(logits[0], hidden[0], previous.flatten())
            shape = (len(places), block, -1)
            expected |= {"previous": previous, "candidates": candidates.view(shape), "scores": scores.view(shape)}
        if kind == "DSpark":
            seen = {}

            def capture(logits, targets, confidence_logits, *_, **__):
                seen["logits"], seen["confidence"] = logits, confidence_logits
                return torch.zeros(()), {}

            dspark_core.compute_metrics, original = capture, dspark_core.compute_metrics
            model(*inputs, max_anchors=len(places))
            dspark_core.compute_metrics = original
            logits = seen["logits"]
            expected["previous"] = previous
            expected["confidence"] = seen["confidence"].view(len(places), block)
    expected["hidden"] = hidden.view(len(places), block, -1)
    expected["logits"] = logits.view(len(places), block, -1)
    dropped = ("verifier_", "none") if own_matrices else ("verifier_", "embed_tokens")
    state = {n: t for n, t in model.state_dict().items() if not n.startswith(dropped)}
    write(case, json.loads(config.to_json_string()), state, expected)


# ---- gradients: one masked pass in plain PyTorch, float64 ----

SMALL = {"hidden_size": 24, "intermediate_size": 28, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "vocab_size": 40, "num_hidden_layers": 2, "num_target_layers": 9, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
         "layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True, "sliding_window": 6,
         "dflash_config": {"block_size": 4, "target_layer_ids": [1, 6], "draft_vocab_size": 18, "markov_rank": 3,
                           "enable_confidence_head": True, "confidence_head_with_markov": True}}


# What DFlash 2 adds, in its case of the gradients.
SECOND = {"conv_kernel_size": 3, "conv_group_size": 8, "selector_rank": 5, "selector_top_k": 4}


def small_shapes():
    c = SMALL
    d, i, q, kv = c["hidden_size"], c["intermediate_size"], 4 * 8, 2 * 8
    out = {"fc.weight": (d, 2 * d), "hidden_norm.weight": (d,), "norm.weight": (d,), "mask_embedding": (d,),
           "markov_head.markov_w1.weight": (40, 3), "markov_head.markov_w2.weight": (18, 3),
           "confidence_head.proj.weight": (1, d + 3), "confidence_head.proj.bias": (1,)}
    for n in range(c["num_hidden_layers"]):
        out |= {f"layers.{n}.{k}.weight": s for k, s in {
            "input_layernorm": (d,), "post_attention_layernorm": (d,), "self_attn.q_proj": (q, d),
            "self_attn.k_proj": (kv, d), "self_attn.v_proj": (kv, d), "self_attn.o_proj": (d, q),
            "self_attn.q_norm": (8,), "self_attn.k_norm": (8,), "mlp.gate_proj": (i, d), "mlp.up_proj": (i, d),
            "mlp.down_proj": (d, i)}.items()}
    return out


def norm(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + SMALL["rms_norm_eps"]) * w


def rotate(x, positions):
    """[heads, rows, 8]; angles in float32, as every implementation has them."""
    frequency = (1.0 / 10000.0 ** (torch.arange(0, 8, 2, dtype=torch.float64) / 8)).float()
    angle = positions.float()[:, None] * frequency
    cos, sin = (torch.cat([f(angle)] * 2, -1).double() for f in (torch.cos, torch.sin))
    return x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin


def masked_pass(w, embedding, features, documents, positions, places, anchors):
    """[anchors, block, hidden]: every block at once, its slots behind the packed rows of all documents."""
    block, window, rows = 4, SMALL["sliding_window"], len(features)
    context = norm(features @ w["fc.weight"].T, w["hidden_norm.weight"])
    h = torch.cat([torch.cat([embedding[a][None], w["mask_embedding"].expand(block - 1, -1)]) for a in anchors])
    if "slot_state.weight" in w:  # the newest context row speaks to every slot; no anchor may stand at position 0
        h = h + (context[places - 1] @ w["slot_state.weight"].T).repeat_interleave(block, 0)
    at = torch.cat([positions[p] + torch.arange(block) for p in places])
    owner = torch.arange(len(places)).repeat_interleave(block)
    every = torch.cat([positions, at])
    before = (documents[None] == documents[places][owner][:, None]) & (positions[None] < positions[places][owner][:, None])
    own = owner[None] == owner[:, None]
    ahead = every[None] - at[:, None]
    for n, kind in enumerate(SMALL["layer_types"]):
        at_layer = {k: w[f"layers.{n}.{k}.weight"] for k in (
            "input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
            "self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")}
        seen = torch.cat([before, own], 1)
        if kind == "sliding_attention":
            seen = seen & (ahead <= 0) & (-ahead < window)
        x, attention_kernels = convolve_input(w, f"layers.{n}.attention_conv", norm(h, at_layer["input_layernorm"]))
        both = torch.cat([context, x])
        heads = lambda y, count: y.view(len(y), count, 8).transpose(0, 1)
        q = rotate(norm(heads(x @ at_layer["self_attn.q_proj"].T, 4), at_layer["self_attn.q_norm"]), at)
        k = rotate(norm(heads(both @ at_layer["self_attn.k_proj"].T, 2), at_layer["self_attn.k_norm"]), every)
        v = heads(both @ at_layer["self_attn.v_proj"].T, 2)
        k, v = k.repeat_interleave(2, 0), v.repeat_interleave(2, 0)
        scores = (q @ k.transpose(1, 2) / 8 ** 0.5).masked_fill(~seen, float("-inf"))
        attended = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(h), -1) @ at_layer["self_attn.o_proj"].T
        h = h + convolve(w, f"layers.{n}.attention_conv", attended, attention_kernels, 1)
        z, mlp_kernels = convolve_input(w, f"layers.{n}.mlp_conv", norm(h, at_layer["post_attention_layernorm"]))
        gated = (F.silu(z @ at_layer["mlp.gate_proj"].T) * (z @ at_layer["mlp.up_proj"].T)) @ at_layer["mlp.down_proj"].T
        h = h + convolve(w, f"layers.{n}.mlp_conv", gated, mlp_kernels, 1)
    assert rows + len(h) == len(every)
    return norm(h, w["norm.weight"]).view(len(places), block, -1)


def convolve(w, name, x, kernels, side):
    """DFlash 2's convolution of the slots of every block, slot by slot; x itself where there is none."""
    if kernels is None:
        return x
    base, block, group = w[f"{name}.base_kernel"][side], 4, SECOND["conv_group_size"]
    rows = []
    for t in range(len(x)):
        taps = [(base[o] + kernels[t, side, o].repeat_interleave(group)) * x[t - o]
                for o in range(len(base)) if t % block >= o]
        rows.append(sum(taps))
    return torch.stack(rows)


def convolve_input(w, name, x):
    if f"{name}.base_kernel" not in w:
        return x, None
    kernels = (x @ w[f"{name}.kernel_projection.weight"].T).view(len(x), 2, SECOND["conv_kernel_size"], -1)
    return convolve(w, name, x, kernels, 0), kernels


def conditioned(w, logits, hidden, previous, labels):
    """Logits with what the token before adds, and the labels' places among them."""
    if "candidate_selector.hidden_projection.weight" in w:
        candidates = logits.topk(SECOND["selector_top_k"] - 1, -1).indices.flatten(0, 1)
        labels = labels.flatten()
        candidates = torch.stack([torch.cat([c, l[None] if l not in c else (c + 1)[:1] % 18])  # any other token
                                  for c, l in zip(candidates, labels)])
        rows = w["candidate_selector.predecessor_codebook"][previous.flatten()]
        state = hidden.flatten(0, 1) @ w["candidate_selector.hidden_projection.weight"].T
        scores = ((rows * state)[:, None] * w["candidate_selector.successor_codebook"][candidates]).sum(-1)
        scores = logits.flatten(0, 1).gather(1, candidates) + scores
        return scores, (candidates == labels[:, None]).long().argmax(1), candidates
    rows = w["markov_head.markov_w1.weight"][previous]
    if "markov_head.gate_proj.weight" in w:
        rows = rows * torch.sigmoid(torch.cat([hidden, rows], -1) @ w["markov_head.gate_proj.weight"].T
                                    + w["markov_head.gate_proj.bias"])
    return (logits + rows @ w["markov_head.markov_w2.weight"].T).reshape(-1, 18), labels.flatten(), None


def gradients(case="gradients", changes=None, shapes=None):
    """Loss: cross-entropy of slots 1.. with weights exp(-(k - 1) / 2), plus a third of the confidence head's."""
    torch.manual_seed(77)
    w = {n: (1.0 + 0.3 * torch.randn(s) if n.endswith("norm.weight") else torch.randn(s) * 1.5 / s[-1] ** 0.5)
         .bfloat16().double().requires_grad_() for n, s in (shapes or small_shapes()).items()}
    kept = torch.randperm(40)[:18].sort().values
    embedding, head = torch.randn(40, 24).bfloat16().double(), (torch.randn(40, 24) * 0.3).bfloat16().double()
    lengths, places = [11, 14], torch.tensor([2, 3, 8, 11, 16, 21])
    features = torch.randn(sum(lengths), 48).bfloat16().double()
    documents = torch.tensor([0] * 11 + [1] * 14)
    positions = torch.cat([torch.arange(n) for n in lengths])
    anchors, labels = torch.randint(40, (6,)), torch.randint(18, (6, 3))
    previous, accepted = torch.randint(40, (6, 3)), torch.rand(6, 3).bfloat16().double()
    hidden = masked_pass(w, embedding, features, documents, positions, places, anchors)[:, 1:]
    logits, places_of_labels, candidates = conditioned(w, hidden @ head[kept].T, hidden, previous, labels)
    weight = torch.exp(-torch.arange(3.0).double() / 2).expand(6, 3)
    entropy = F.cross_entropy(logits, places_of_labels, reduction="none").view(6, 3)
    seen = [hidden]
    if "markov_head.markov_w1.weight" in w:
        seen.append(w["markov_head.markov_w1.weight"][previous])
    confidence = (torch.cat(seen, -1) @ w["confidence_head.proj.weight"].T).squeeze(-1)
    confidence = confidence + w["confidence_head.proj.bias"]
    doubt = F.binary_cross_entropy_with_logits(confidence, accepted, reduction="none")
    loss = (weight * (entropy + doubt / 3)).sum() / weight.sum()
    loss.backward()
    expected = {f"gradient.{n}": t.grad for n, t in w.items()} | {
        "loss": loss[None], "features": features, "lengths": torch.tensor(lengths), "places": places,
        "anchors": anchors, "labels": labels, "previous": previous, "accepted": accepted, "embedding": embedding,
        "head": head}
    if candidates is not None:
        expected |= {"candidates": candidates, "places_of_labels": places_of_labels}
    weights = {n: t.detach() for n, t in w.items()} | {"d2t": kept - torch.arange(18)}
    config = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3"} | SMALL
    write(case, config | {"dflash_config": SMALL["dflash_config"] | (changes or {})}, weights, expected)


def second_gradients():
    """The same of DFlash 2's convolution and selector in place of the Markov head, and of DSpark's gated head."""
    d, groups, taps, rank = 24, 24 // SECOND["conv_group_size"], SECOND["conv_kernel_size"], SECOND["selector_rank"]
    shapes = {n: s for n, s in small_shapes().items() if not n.startswith("markov")}
    shapes["confidence_head.proj.weight"] = (1, d)
    for n in range(SMALL["num_hidden_layers"]):
        for around in ("attention_conv", "mlp_conv"):
            shapes[f"layers.{n}.{around}.base_kernel"] = (2, taps, d)
            shapes[f"layers.{n}.{around}.kernel_projection.weight"] = (2 * taps * groups, d)
    shapes |= {"candidate_selector.predecessor_codebook": (40, rank), "candidate_selector.successor_codebook": (18, rank),
               "candidate_selector.hidden_projection.weight": (rank, d)}
    gradients("gradients_dflash2", SECOND | {"markov_rank": 0, "confidence_head_with_markov": False}, shapes)
    gradients("gradients_gated", {"markov_head_type": "gated"}, small_shapes() | {
        "markov_head.gate_proj.weight": (3, d + 3), "markov_head.gate_proj.bias": (3,)})


def main():
    stub_what_models_do_not_need()
    torch.manual_seed(1)
    target = {"embed_tokens.weight": torch.randn(VOCAB, HIDDEN).bfloat16(),
              "lm_head.weight": (torch.randn(VOCAB, HIDDEN) * 0.5).bfloat16()}
    ROOT.mkdir(parents=True, exist_ok=True)
    save_file(target, ROOT / "target.safetensors")

    full = {"num_hidden_layers": 2, "num_target_layers": 9}
    ids = {"target_layer_ids": [1, 4, 6], "mask_token_id": 60}
    model, _ = zlab("zlab_full", full | ROPE | {"dflash_config": ids | {"block_size": 6}}, target, 2)
    zlab("zlab_scaled", {"num_hidden_layers": 1, "num_target_layers": 9, "rope_theta": 1000.0, "block_size": 5,
                         "dflash_config": ids | {"input_embedding_scale": 2.5, "output_multiplier": 0.7,
                                                 "final_logit_softcapping": 3.0}}, target, 3)
    # No layer ids: the default rule, where a half is rounded to even.
    zlab("zlab_hybrid", {"num_hidden_layers": 3, "num_target_layers": 7, "block_size": 6, "use_sliding_window": True,
                         "sliding_window": 5, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
                         "dflash_config": {"mask_token_id": 3}} | ROPE, target, 4)
    zlab("zlab_both_ways", {"num_hidden_layers": 2, "num_target_layers": 9, "block_size": 6, "use_sliding_window": True,
                            "sliding_window": 4, "layer_types": ["sliding_attention"] * 2, "is_causal": False,
                            "dflash_config": ids} | ROPE, target, 5)

    common = {"aux_hidden_state_layer_ids": [2, 5, 7], "mask_token_id": 60, "block_size": 6}
    speculators("speculators_full", {"num_hidden_layers": 2}, common | {"draft_vocab_size": VOCAB}, target, 6,
                weights=model.state_dict())
    # A window wider than the documents: theirs starts at the anchor for all slots, the runtimes' at each slot.
    windows = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
               "use_sliding_window": True, "sliding_window": 64}
    speculators("speculators_reduced", windows, common | {"draft_vocab_size": 24}, target, 7, own_matrices=False)
    speculators("speculators_both_ways", windows | {"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}, common | {"draft_vocab_size": VOCAB, "sliding_window_non_causal": True},
                target, 8, own_matrices=False)
    speculators("dspark", {"num_hidden_layers": 2}, common | {"draft_vocab_size": 24, "markov_rank": 5}, target, 9,
                kind="DSpark")
    speculators("dspark_from_mask", {"num_hidden_layers": 1},
                common | {"draft_vocab_size": 24, "markov_rank": 5, "sample_from_anchor": False,
                          "confidence_head_with_markov": False}, target, 10, kind="DSpark")
    gradients()
    # DFlash 2 as published: all layers see a window both ways; the block size stands in dflash_config alone.
    zlab("zlab_dflash2", {"num_hidden_layers": 2, "num_target_layers": 9, "use_sliding_window": True, "sliding_window": 9,
                          "layer_types": ["sliding_attention"] * 2, "is_causal": False,
                          "dflash_config": ids | {"block_size": 6, "conv_kernel_size": 2, "conv_group_size": 4,
                                                  "selector_rank": 7, "selector_top_k": 5}} | ROPE, target, 11, second=True)
    speculators("speculators_dflash2", windows, common | {"draft_vocab_size": VOCAB, "conv_kernel_size": 3, "conv_group_size": 8,
                                                          "selector_rank": 6, "selector_top_k": 9},
                target, 12, kind="DFlash2", own_matrices=False)
    speculators("dspark_gated", {"num_hidden_layers": 1}, common | {"draft_vocab_size": 24, "markov_rank": 5, "markov_head_type": "gated"},
                target, 13, kind="DSpark")
    second_gradients()
    total = sum(f.stat().st_size for f in ROOT.rglob("*") if f.is_file())
    print(f"{ROOT}: {total / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
