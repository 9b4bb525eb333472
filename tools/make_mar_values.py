#!/usr/bin/env python3
"""Makes tests/data/mar/: small random networks over image tokens with what they compute, in NumPy float64.

usage: make_mar_values.py

causal/, causal_joint/     our causal form, modulated by a sum and jointly; masked/: the published, bidirectional form
  config.json, model.safetensors    tensor names of LTH14/mar, float32
  expected.safetensors
    tokens [B, N, dim], label [B] int64      the last image has no class
    z [B, N, hidden]                         the backbone's output; masked: with `known` [B, N] int64 (1: known)
    x [B * N, dim], time [B * N] int64       states and times of the head, output [B * N, outputs]
masked/ also
    order [B, N], revealed [S, B, N], cfg [S] of the sampling loop with S steps and guidance 3, linear schedule
    noise [S, T, B * N, dim], path [S, B, N, dim]      one sampled trajectory: normals by step of the loop and by noise
                                                       level, T - 1 for the first state, 0 not used; tokens after a step
kl/        the decoder of the KL-16 autoencoder, tensors renamed by convert_mar.py
  config.json, diffusion_pytorch_model.safetensors, expected.safetensors: latents [1, C, h, w], image [1, 3, H, W]
schedule.safetensors
  results are float64, stored as their bits in int64: time_T int64, alpha_bar_T, beta_T, posterior_T, c1_T, c2_T,
  calibrated_T [T] for T = 10, 25, 100; index 0 is the last transition. calibrated: posterior + c1^2 * 0.01 (1 + t / 100)
"""

import json
import math
import pathlib
import struct

import numpy as np

import convert_mar

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "mar"
CAUSAL = {"architecture": "mar", "form": "causal", "side": 16, "channels": 2, "patch_size": 4, "num_classes": 3,
          "hidden_size": 32, "num_heads": 2, "mlp_size": 64, "depth": 2, "head_width": 48, "head_blocks": 2,
          "prediction": "velocity", "modulation": "separate", "token_mean": -0.25, "token_scale": 0.5,
          "token_noise": 0.1, "x0_low": -2.0, "x0_high": 2.5,
          "order": [0, 10, 2, 8, 5, 15, 7, 13, 1, 11, 3, 9, 4, 14, 6, 12],
          "calibration": {"times": [0, 500, 999], "errors": [0.001, 0.1, 1.0]}}
JOINT = {**CAUSAL, "modulation": "joint", "prediction": "noise", "x0_low": 0.0, "x0_high": 0.0}
del JOINT["order"], JOINT["calibration"]
MASKED = {**JOINT, "form": "masked", "side": 4, "channels": 16, "patch_size": 1, "decoder_depth": 2, "buffer_size": 4,
          "token_mean": 0.0, "token_scale": 1.0, "token_noise": 0.0, "num_heads": 4}
STEPS, CHAIN, GUIDANCE = 6, 5, 3.0

TYPES = {np.dtype(np.float32): "F32", np.dtype(np.int64): "I64"}


def save(path, tensors):
    header, body = {}, b""
    for name, x in tensors.items():
        raw = np.ascontiguousarray(x).tobytes()
        header[name] = {"dtype": TYPES[x.dtype], "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def f32(x):
    return np.asarray(x, np.float64).astype(np.float32)


def bits(x):
    return np.asarray(x, np.float64).view(np.int64)


# Networks.

def shapes(c):
    d, n, w = c["hidden_size"], (c["side"] // c["patch_size"]) ** 2, c["head_width"]
    dim = c["channels"] * c["patch_size"] ** 2
    masked = c["form"] == "masked"
    rows = n + c.get("buffer_size", 0)
    out = {"class_emb.weight": [c["num_classes"], d], "fake_latent": [1, d], "encoder_pos_embed_learned": [1, rows, d],
           "diffusion_pos_embed_learned": [1, n, d]}

    def linear(name, o, i):
        out[name + ".weight"], out[name + ".bias"] = [o, i], [o]

    def norm(name, width):
        out[name + ".weight"], out[name + ".bias"] = [width], [width]

    def blocks(name, depth):
        for i in range(depth):
            p = f"{name}.{i}."
            norm(p + "norm1", d), norm(p + "norm2", d)
            linear(p + "attn.qkv", 3 * d, d), linear(p + "attn.proj", d, d)
            linear(p + "mlp.fc1", c["mlp_size"], d), linear(p + "mlp.fc2", d, c["mlp_size"])

    linear("z_proj", d, dim), norm("z_proj_ln", d), blocks("encoder_blocks", c["depth"]), norm("encoder_norm", d)
    if masked:
        linear("decoder_embed", d, d), blocks("decoder_blocks", c["decoder_depth"]), norm("decoder_norm", d)
        out["mask_token"], out["decoder_pos_embed_learned"] = [1, 1, d], [1, rows, d]
    else:
        out["query_pos_embed_learned"] = [1, n, d]
    p = "diffloss.net."
    linear(p + "time_embed.mlp.0", w, 256), linear(p + "time_embed.mlp.2", w, w)
    linear(p + "cond_embed", w, d), linear(p + "input_proj", w, dim)
    kinds = ["adaLN_modulation.1"] + (["adaLN_time.1"] if c["modulation"] == "separate" else [])
    for i in range(c["head_blocks"]):
        b = f"{p}res_blocks.{i}."
        norm(b + "in_ln", w), linear(b + "mlp.0", w, w), linear(b + "mlp.2", w, w)
        for kind in kinds:
            linear(b + kind, 3 * w, w)
    for kind in kinds:
        linear(p + "final_layer." + kind, 2 * w, w)
    linear(p + "final_layer.linear", dim * (2 if c["prediction"] == "noise" else 1), w)
    return out


def random_weights(c, rng):
    out = {}
    for name, shape in shapes(c).items():
        spread = 1 / math.sqrt(shape[-1]) if len(shape) == 2 and "emb.weight" not in name else 0.3
        center = 1.0 if name.endswith("weight") and len(shape) == 1 else 0.0
        out[name] = f32(center + spread * rng.standard_normal(shape))
    return out


def linear(w, name, x):
    return x @ w[name + ".weight"].T.astype(np.float64) + w[name + ".bias"]


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def layer_norm(w, name, x):
    return norm(x) * w[name + ".weight"] + w[name + ".bias"]


def silu(x):
    return x / (1 + np.exp(-x))


ERF = np.vectorize(math.erf)


def block(w, p, x, heads, causal):
    b, n, d = x.shape
    q, k, v = linear(w, p + "attn.qkv", layer_norm(w, p + "norm1", x)).reshape(b, n, 3, heads, -1).transpose(2, 0, 3, 1, 4)
    scores = q @ k.transpose(0, 1, 3, 2) * (d // heads) ** -0.5
    if causal:
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    y = (e / e.sum(-1, keepdims=True)) @ v
    x = x + linear(w, p + "attn.proj", y.transpose(0, 2, 1, 3).reshape(b, n, d))
    h = linear(w, p + "mlp.fc1", layer_norm(w, p + "norm2", x))
    return x + linear(w, p + "mlp.fc2", 0.5 * h * (1 + ERF(h / math.sqrt(2))))


def labels(w, label):
    return np.concatenate([w["class_emb.weight"], w["fake_latent"]])[label].astype(np.float64)


def causal(c, w, tokens, label):
    n = tokens.shape[1]
    order = c.get("order", list(range(n)))
    known = layer_norm(w, "z_proj_ln", linear(w, "z_proj", tokens[:, :-1]) + w["encoder_pos_embed_learned"][0][order[:-1]])
    h = np.concatenate([np.zeros_like(known[:, :1]), known], 1)
    h = h + labels(w, label)[:, None] + w["query_pos_embed_learned"][0][order]
    for i in range(c["depth"]):
        h = block(w, f"encoder_blocks.{i}.", h, c["num_heads"], True)
    return layer_norm(w, "encoder_norm", h) + w["diffusion_pos_embed_learned"][0][order]


def masked(c, w, tokens, label, known):
    """One image: tokens [N, dim], known [N] bool."""
    buffer = c["buffer_size"]
    x = np.concatenate([np.repeat(labels(w, label)[None], buffer, 0), linear(w, "z_proj", tokens)])
    x = layer_norm(w, "z_proj_ln", x + w["encoder_pos_embed_learned"][0])
    keep = np.concatenate([np.ones(buffer, bool), known])
    h = x[keep][None]
    for i in range(c["depth"]):
        h = block(w, f"encoder_blocks.{i}.", h, c["num_heads"], False)
    h = linear(w, "decoder_embed", layer_norm(w, "encoder_norm", h))
    full = np.repeat(w["mask_token"][0].astype(np.float64), len(keep), 0)
    full[keep] = h[0]
    h = (full + w["decoder_pos_embed_learned"][0])[None]
    for i in range(c["decoder_depth"]):
        h = block(w, f"decoder_blocks.{i}.", h, c["num_heads"], False)
    return layer_norm(w, "decoder_norm", h)[0, buffer:] + w["diffusion_pos_embed_learned"][0]


def head(c, w, x, time, z):
    p, width = "diffloss.net.", c["head_width"]
    rates = np.exp(-math.log(10000) * np.arange(128) / 128)
    angles = time[:, None] * rates
    t = linear(w, p + "time_embed.mlp.2",
               silu(linear(w, p + "time_embed.mlp.0", np.concatenate([np.cos(angles), np.sin(angles)], 1))))
    cond = linear(w, p + "cond_embed", z)

    def modulation(name):
        if c["modulation"] == "joint":
            return linear(w, name + "adaLN_modulation.1", silu(t + cond))
        return linear(w, name + "adaLN_modulation.1", silu(cond)) + linear(w, name + "adaLN_time.1", silu(t))

    h = linear(w, p + "input_proj", x)
    for i in range(c["head_blocks"]):
        b = f"{p}res_blocks.{i}."
        shift, scale, gate = np.split(modulation(b), 3, -1)
        y = layer_norm(w, b + "in_ln", h) * (1 + scale) + shift
        h = h + gate * linear(w, b + "mlp.2", silu(linear(w, b + "mlp.0", y)))
    shift, scale = np.split(modulation(p + "final_layer."), 2, -1)
    return linear(w, p + "final_layer.linear", norm(h) * (1 + scale) + shift)


# The schedule.

def schedule(steps):
    bar = lambda u: math.cos((u + 0.008) / 1.008 * math.pi / 2) ** 2
    betas = [min(1 - bar((i + 1) / 1000) / bar(i / 1000), 0.999) for i in range(1000)]
    all_bars = np.cumprod(1 - np.array(betas))
    times = [round(k * 999 / (steps - 1)) for k in range(steps)]  # half to even
    ab = all_bars[times]
    prev = np.concatenate([[1.0], ab[:-1]])
    beta = 1 - ab / prev
    posterior = beta * (1 - prev) / (1 - ab)
    return {"time": np.array(times), "alpha_bar": ab, "beta": beta, "posterior": posterior,
            "c1": beta * np.sqrt(prev) / (1 - ab), "c2": (1 - prev) * np.sqrt(1 - beta) / (1 - ab),
            "calibrated": posterior + (beta * np.sqrt(prev) / (1 - ab)) ** 2 * 0.01 * (1 + np.array(times) / 100)}


def sample_tokens(c, w, z, z_none, guidance, noise):
    """Chains of the tokens with conditions z [n, hidden]; noise [T, n, dim], index T - 1 is the first state."""
    s = schedule(CHAIN)
    x = noise[CHAIN - 1]
    log_post = np.log(np.concatenate([s["posterior"][1:2], s["posterior"][1:]]))
    for i in reversed(range(CHAIN)):
        t = np.full(len(x), s["time"][i])
        eps, v = np.split(head(c, w, x, t, z), 2, -1)
        if guidance != 1:
            none = np.split(head(c, w, x, t, z_none), 2, -1)[0]
            eps = none + guidance * (eps - none)
        ab = s["alpha_bar"][i]
        x0 = x * math.sqrt(1 / ab) - eps * math.sqrt(1 / ab - 1)
        mean = s["c1"][i] * x0 + s["c2"][i] * x
        share = (v + 1) / 2
        if i == 0:
            return mean
        x = mean + np.exp(0.5 * (share * math.log(s["beta"][i]) + (1 - share) * log_post[i])) * noise[i - 1]


def trajectory(c, w, label, rng):
    n, dim, batch = c["side"] ** 2, c["channels"], len(label)
    order = np.stack([rng.permutation(n) for _ in range(batch)])
    noise = f32(rng.standard_normal((STEPS, CHAIN, batch * n, dim)))
    tokens, mask = np.zeros((batch, n, dim)), np.ones((batch, n), bool)
    revealed, path, scales = [], [], []
    for step in range(STEPS):
        m = math.floor(n * math.cos(math.pi / 2 * (step + 1) / STEPS))
        m = max(1, min(mask[0].sum() - 1, m))
        after = np.zeros((batch, n), bool)
        for b in range(batch):
            after[b, order[b, :m]] = True
        now = mask if step == STEPS - 1 else mask & ~after
        scale = 1 + (GUIDANCE - 1) * (n - m) / n
        for b in range(batch):
            z = masked(c, w, tokens[b], label[b], ~mask[b])
            none = masked(c, w, tokens[b], c["num_classes"], ~mask[b])
            places = np.flatnonzero(now[b])
            tokens[b, places] = sample_tokens(c, w, z[places], none[places], scale,
                                              noise[step][:, b * n + places].astype(np.float64))
        mask = after
        revealed.append(now.astype(np.int64)), path.append(tokens.copy()), scales.append(scale)
    return {"order": order.astype(np.int64), "revealed": np.stack(revealed), "cfg": bits(scales), "noise": noise,
            "path": f32(np.stack(path))}


def write(name, c, seed):
    rng = np.random.default_rng(seed)
    w = random_weights(c, rng)
    n = (c["side"] // c["patch_size"]) ** 2
    dim = c["channels"] * c["patch_size"] ** 2
    label = np.array([1, c["num_classes"]])
    tokens = f32(rng.standard_normal((2, n, dim))).astype(np.float64)
    out = {"tokens": f32(tokens), "label": label}
    if c["form"] == "masked":
        known = (np.arange(n)[None] % 3 == np.arange(2)[:, None]) & (np.arange(n) < 15)
        out["known"] = known.astype(np.int64)
        z = np.stack([masked(c, w, tokens[b], label[b], known[b]) for b in range(2)])
    else:
        z = causal(c, w, tokens, label)
    x = f32(rng.standard_normal((2 * n, dim)))
    time = rng.integers(0, 1000, 2 * n)
    time[:2] = [0, 999]
    out |= {"z": f32(z), "x": x, "time": time,
            "output": f32(head(c, w, x.astype(np.float64), time, z.reshape(2 * n, -1)))}
    if c["form"] == "masked":
        out |= trajectory(c, w, np.array([0, 2]), rng)
    (DATA / name).mkdir(parents=True, exist_ok=True)
    (DATA / name / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    save(DATA / name / "model.safetensors", w)
    save(DATA / name / "expected.safetensors", out)


# The KL-16 autoencoder, by its own names.

class KlWeights:
    """Random weights, in the order in which they are asked for."""

    def __init__(self, rng):
        self.w, self.rng = {}, rng

    def conv(self, name, o, i, k=3):
        self.w[name + ".weight"] = f32(self.rng.standard_normal([o, i, k, k]) / math.sqrt(i * k * k))
        self.w[name + ".bias"] = f32(0.1 * self.rng.standard_normal(o))

    def affine(self, name, width):
        self.w[name + ".weight"] = f32(1 + 0.2 * self.rng.standard_normal(width))
        self.w[name + ".bias"] = f32(0.2 * self.rng.standard_normal(width))

    def resnet(self, name, i, o):
        self.affine(name + "norm1", i), self.conv(name + "conv1", o, i)
        self.affine(name + "norm2", o), self.conv(name + "conv2", o, o)
        if i != o:
            self.conv(name + "nin_shortcut", o, i, 1)

    def attention(self, name, width):
        self.affine(name + "norm", width)
        for part in ("q", "k", "v", "proj_out"):
            self.conv(name + part, width, width, 1)

    def middle(self, name, width):
        self.resnet(name + "block_1.", width, width), self.resnet(name + "block_2.", width, width)
        self.attention(name + "attn_1.", width)


def decoder_weights(channels, latents, rng):
    k = KlWeights(rng)
    width = channels[-1]
    k.conv("post_quant_conv", latents, latents, 1), k.conv("decoder.conv_in", width, latents)
    k.middle("decoder.mid.", width)
    for level in reversed(range(len(channels))):
        for b in range(3):
            k.resnet(f"decoder.up.{level}.block.{b}.", width, channels[level])
            width = channels[level]
        if level > 0:
            k.conv(f"decoder.up.{level}.upsample.conv", width, width)
    k.affine("decoder.norm_out", channels[0]), k.conv("decoder.conv_out", 3, channels[0])
    return k.w


def encoder_weights(channels, latents, rng):
    k = KlWeights(rng)
    width = channels[0]
    k.conv("encoder.conv_in", width, 3)
    for level, own in enumerate(channels):
        for b in range(2):
            k.resnet(f"encoder.down.{level}.block.{b}.", width, own)
            width = own
            if level + 1 == len(channels):
                k.attention(f"encoder.down.{level}.attn.{b}.", width)
        if level + 1 < len(channels):
            k.conv(f"encoder.down.{level}.downsample.conv", width, width)
    k.middle("encoder.mid.", width)
    k.affine("encoder.norm_out", width), k.conv("encoder.conv_out", 2 * latents, width)
    k.conv("quant_conv", 2 * latents, 2 * latents, 1)
    return k.w


class Kl:
    def __init__(self, w, groups):
        self.w, self.groups = w, groups

    def conv(self, name, x, stride=1):
        k = self.w[name + ".weight"].astype(np.float64)
        # A stride of 2 has its padding on the right and below alone.
        before, after = (k.shape[2] // 2,) * 2 if stride == 1 else (0, 1)
        x = np.pad(x, ((0, 0), (before, after), (before, after)))
        h, wide = ((n - k.shape[2]) // stride + 1 for n in x.shape[1:])
        y = sum(np.einsum("oi,ihw->ohw", k[:, :, p, q], x[:, p:p + stride * h:stride, q:q + stride * wide:stride])
                for p in range(k.shape[2]) for q in range(k.shape[3]))
        return y + self.w[name + ".bias"][:, None, None]

    def group_norm(self, name, x):
        g = x.reshape(self.groups, -1)
        y = ((g - g.mean(1, keepdims=True)) / np.sqrt(g.var(1, keepdims=True) + 1e-6)).reshape(x.shape)
        return y * self.w[name + ".weight"][:, None, None] + self.w[name + ".bias"][:, None, None]

    def resnet(self, name, x):
        h = self.conv(name + "conv1", silu(self.group_norm(name + "norm1", x)))
        h = self.conv(name + "conv2", silu(self.group_norm(name + "norm2", h)))
        return h + (self.conv(name + "nin_shortcut", x) if name + "nin_shortcut.weight" in self.w else x)

    def attention(self, name, x):
        y = self.group_norm(name + "norm", x)
        q, k, v = (self.conv(name + part, y).reshape(len(x), -1) for part in "qkv")
        e = np.exp(q.T @ k * len(x) ** -0.5)
        return x + self.conv(name + "proj_out", (v @ (e / e.sum(1, keepdims=True)).T).reshape(x.shape))

    def middle(self, name, x):
        return self.resnet(name + "block_2.", self.attention(name + "attn_1.", self.resnet(name + "block_1.", x)))

    def decode(self, latents, levels):
        x = self.middle("decoder.mid.", self.conv("decoder.conv_in", self.conv("post_quant_conv", latents / 0.2325)))
        for level in reversed(range(levels)):
            for b in range(3):
                x = self.resnet(f"decoder.up.{level}.block.{b}.", x)
            if level > 0:
                x = self.conv(f"decoder.up.{level}.upsample.conv", x.repeat(2, 1).repeat(2, 2))
        return self.conv("decoder.conv_out", silu(self.group_norm("decoder.norm_out", x)))

    def encode(self, image, levels):
        """Mean and standard deviation of the latents."""
        x = self.conv("encoder.conv_in", image)
        for level in range(levels):
            for b in range(2):
                x = self.resnet(f"encoder.down.{level}.block.{b}.", x)
                if level + 1 == levels:
                    x = self.attention(f"encoder.down.{level}.attn.{b}.", x)
            if level + 1 < levels:
                x = self.conv(f"encoder.down.{level}.downsample.conv", x, stride=2)
        x = silu(self.group_norm("encoder.norm_out", self.middle("encoder.mid.", x)))
        mean, log_variance = np.split(self.conv("quant_conv", self.conv("encoder.conv_out", x)), 2)
        return 0.2325 * mean, 0.2325 * np.exp(0.5 * np.clip(log_variance, -30, 20))


def write_autoencoder():
    rng = np.random.default_rng(4)
    channels, latents = [4, 8, 8], 4
    w = decoder_weights(channels, latents, rng)
    z = f32(rng.standard_normal([latents, 4, 3]) * 0.2325)
    w |= encoder_weights(channels, latents, rng)
    kl = Kl(w, 4)
    image = f32(kl.decode(z.astype(np.float64), len(channels)))
    photo = f32(rng.uniform(-1, 1, [3, 12, 16]))
    mean, deviation = kl.encode(photo.astype(np.float64), len(channels))
    folder = DATA / "kl"
    renamed = {new: w[name][:, :, 0, 0] if ".attentions." in new and w[name].ndim == 4 else w[name]
               for name, new in convert_mar.vae_names(w).items()}
    save(folder / "diffusion_pytorch_model.safetensors", renamed)
    config = convert_mar.vae_config(w) | {"norm_num_groups": 4}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save(folder / "expected.safetensors", {"latents": z[None], "image": image[None], "photo": photo[None],
                                           "mean": f32(mean[None]), "deviation": f32(deviation[None])})


def main():
    write_autoencoder()
    write("causal", CAUSAL, 1)
    write("causal_joint", JOINT, 2)
    write("masked", MASKED, 3)
    tables = {}
    for steps in (10, 25, 100):
        for key, x in schedule(steps).items():
            tables[f"{key}_{steps}"] = x.astype(np.int64) if key == "time" else bits(x)
    save(DATA / "schedule.safetensors", tables)


if __name__ == "__main__":
    main()
