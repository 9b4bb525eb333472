#!/usr/bin/env python3
"""Makes tests/data/dit/ and tests/data/vae/: small random diffusion transformers and image decoders with what they
compute, and a diffusion schedule in float64.

usage: make_dit_values.py               tests/data/dit/
       make_dit_values.py --vae         tests/data/vae/
       make_dit_values.py --xl FOLDER   a DiT-XL/2 of random weights (2 x 2.7 GB) for a check by hand, nothing else
                                        (offline, on a CPU; torch, safetensors, diffusers as in requirements.txt)

dit/reference/, dit/reference_pixel/   tensor names and arithmetic of facebookresearch/DiT (time frequencies over 128,
                 every LayerNorm with eps 1e-6, stored pos_embed), computed by the plain function `reference` below
  config.json          our own keys; num_classes leaves out the null class, which is the last row of the label table
  model.safetensors    float32
dit/diffusers/transformer/             a DiTTransformer2DModel as its save_pretrained writes it, computed by diffusers
                 (frequencies over 127, the second LayerNorm of a block with eps 1e-5)
  .../expected.safetensors (beside, for diffusers one folder up)
    x [B, C, H, W], t [B] int64, y [B] int64       t has 0, 10, 999; y has the null class
    f [B, N, D]                                    what leaves the last block
    output [B, C_out, H, W]                        epsilon, and with learned variances C further channels
    guided_K [B, C, H, W]                          epsilon guided with weight 1.5 against the null class on the first K
                                                   channels; the others are the conditional ones
dit/sampler.safetensors                what is given is float32; results are float64, stored as their bits in int64
  betas_T, alphas_cumprod_T, posterior_variance_T, c1_T, c2_T, kappa_T [T], timesteps_T [T] int64
                 T = 1000 linear steps and respaced to 10, 50, 250; index 0 is the last transition of sampling,
                 timesteps are what the network sees; mean = c1 x_0 + c2 x;
                 kappa = |mean - mean'| / (sigma |eps - eps'|), infinite at 0
  toy_noise [20, 3, 8], toy_states [21, 3, 8]
                 ancestral sampling on T = 20 with eps(x, t) = a x + (1 - a) tanh(x), a = t / 999, t as the network
                 sees it; noise k leads from state k to k + 1 (the last one has no effect), state 0 is given
  coupling_*     reflection of a draft x' = m_hat + sigma xi: m_hat, m, xi [64, 16], u, sigma [64] are given, x [64, 16]
                 float64 and accept [64] result; case 0 has equal means
vae/four_levels/, vae/two_levels/      an AutoencoderKL as its save_pretrained writes it, computed by diffusers
  expected.safetensors   latents [n, C, h, w] (scaled), image [n, 3, H, W] not clamped, bytes [n, 3, H, W] int32;
                         photo [n, 3, H, W] and what it is encoded to: mean, deviation [n, C, h, w] (scaled)
"""

import argparse
import json
import math
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
GUIDANCE = 1.5
SMALL = {"architecture": "dit", "depth": 3, "hidden_size": 24, "num_heads": 2, "patch_size": 2, "input_size": 8,
         "in_channels": 4, "num_classes": 5, "learn_sigma": True, "mlp_ratio": 4.0}
PIXEL = SMALL | {"depth": 2, "hidden_size": 16, "num_heads": 4, "patch_size": 4, "input_size": 16, "in_channels": 1,
                 "learn_sigma": False, "mlp_ratio": 2.0}
XL = SMALL | {"depth": 28, "hidden_size": 1152, "num_heads": 16, "input_size": 32, "num_classes": 1000}


def out_channels(c):
    return c["in_channels"] * (2 if c["learn_sigma"] else 1)


def position_embedding(c):
    """[1, N, D]: sines and cosines of the column, then of the row; float64 until the end."""
    side, d = c["input_size"] // c["patch_size"], c["hidden_size"]
    rate = 10000.0 ** (-np.arange(d // 4) / (d / 4.0))
    row, col = np.divmod(np.arange(side * side), side)
    parts = [f(place[:, None] * rate) for place in (col, row) for f in (np.sin, np.cos)]
    return torch.from_numpy(np.concatenate(parts, axis=1)).float()[None]


def shapes(c):
    """Names and shapes of facebookresearch/DiT, without pos_embed."""
    d, p, inner = c["hidden_size"], c["patch_size"], int(c["hidden_size"] * c["mlp_ratio"])
    linears = {"t_embedder.mlp.0": (d, 256), "t_embedder.mlp.2": (d, d)}
    for i in range(c["depth"]):
        linears |= {f"blocks.{i}.attn.qkv": (3 * d, d), f"blocks.{i}.attn.proj": (d, d),
                    f"blocks.{i}.mlp.fc1": (inner, d), f"blocks.{i}.mlp.fc2": (d, inner),
                    f"blocks.{i}.adaLN_modulation.1": (6 * d, d)}
    linears |= {"final_layer.linear": (p * p * out_channels(c), d), "final_layer.adaLN_modulation.1": (2 * d, d)}
    out = {"x_embedder.proj.weight": (d, c["in_channels"], p, p), "x_embedder.proj.bias": (d,),
           "y_embedder.embedding_table.weight": (c["num_classes"] + 1, d)}
    for name, shape in linears.items():
        out |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return out


def random_weight(name, shape):
    """Large enough that every part matters, small enough that activations stay of order one."""
    if name.endswith("bias"):
        return 0.3 * torch.randn(shape)
    if "embedding_table" in name:
        return torch.randn(shape)
    return torch.randn(shape) * (1.1 / math.prod(shape[1:]) ** 0.5)


def reference(w, c, x, t, y):
    """(f [B, N, D], output [B, C_out, H, W]) as facebookresearch/DiT defines them, labels never dropped."""
    d, p, heads = c["hidden_size"], c["patch_size"], c["num_heads"]
    batch, _, height, width = x.shape

    def linear(name, z):
        return F.linear(z, w[name + ".weight"], w[name + ".bias"])

    def modulated(z, shift, scale):
        return F.layer_norm(z, (d,), eps=1e-6) * (1 + scale[:, None]) + shift[:, None]

    h = F.conv2d(x, w["x_embedder.proj.weight"], w["x_embedder.proj.bias"], stride=p)
    h = h.flatten(2).transpose(1, 2) + w["pos_embed"]
    frequency = torch.exp(-math.log(10000) * torch.arange(128, dtype=torch.float32) / 128)
    angle = t[:, None].float() * frequency
    time = torch.cat([angle.cos(), angle.sin()], dim=-1).to(x.dtype)
    time = linear("t_embedder.mlp.2", F.silu(linear("t_embedder.mlp.0", time)))
    condition = F.silu(time + w["y_embedder.embedding_table.weight"][y])
    for i in range(c["depth"]):
        name = f"blocks.{i}."
        shift1, scale1, gate1, shift2, scale2, gate2 = linear(name + "adaLN_modulation.1", condition).chunk(6, dim=1)
        qkv = linear(name + "attn.qkv", modulated(h, shift1, scale1)).view(batch, -1, 3, heads, d // heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = ((q @ k.transpose(-1, -2)) * (d // heads) ** -0.5).softmax(-1) @ v
        h = h + gate1[:, None] * linear(name + "attn.proj", mixed.transpose(1, 2).flatten(2))
        inner = F.gelu(linear(name + "mlp.fc1", modulated(h, shift2, scale2)), approximate="tanh")
        h = h + gate2[:, None] * linear(name + "mlp.fc2", inner)
    shift, scale = linear("final_layer.adaLN_modulation.1", condition).chunk(2, dim=1)
    patches = linear("final_layer.linear", modulated(h, shift, scale))
    patches = patches.view(batch, height // p, width // p, p, p, out_channels(c))
    return h, patches.permute(0, 5, 1, 3, 2, 4).reshape(batch, out_channels(c), height, width)


def guided(network, x, t, y, null, channels):
    """Both halves read the same state; [B, C, H, W]."""
    both = network(torch.cat([x, x]), torch.cat([t, t]), torch.cat([y, torch.full_like(y, null)]))[1]
    conditional, unconditional = both[:, :x.shape[1]].chunk(2)
    mixed = unconditional + GUIDANCE * (conditional - unconditional)
    return torch.cat([mixed[:, :channels], conditional[:, channels:]], dim=1)


def expected(network, c, guided_channels, batch=4):
    shape = (batch, c["in_channels"], c["input_size"], c["input_size"])
    null = c["num_classes"]
    x = torch.randn(shape)
    t, y = torch.tensor([0, 10, 999, 500][-batch:]), torch.tensor([0, null, null - 1, 2][-batch:])
    f, output = network(x, t, y)
    return {"x": x, "t": t, "y": y, "f": f, "output": output} | {
        f"guided_{k}": guided(network, x, t, y, null, k) for k in guided_channels}


def check_scales(run, tensors, values, ignored=()):
    """Outputs of order one, and no weight that could be lost unseen."""
    assert 0.3 < values["output"].std() < 5 and values["f"].std() < 20, (values["output"].std(), values["f"].std())
    for name, tensor in tensors.items():
        if name.endswith(ignored):
            continue
        kept = tensor.clone()
        tensor.zero_()
        change = (run(values["x"], values["t"], values["y"])[1] - values["output"]).pow(2).mean().sqrt()
        tensor.copy_(kept)
        assert change > 0.02, (name, change)


def write_reference(folder, c, guided_channels, batch=4):
    weights = {"pos_embed": position_embedding(c)} | {n: random_weight(n, s) for n, s in shapes(c).items()}

    def network(x, t, y):
        return reference(weights, c, x, t, y)

    values = expected(network, c, guided_channels, batch)
    if c is not XL:
        check_scales(network, weights, values)
        doubles = {n: w.double() for n, w in weights.items()}
        exact = reference(doubles, c, values["x"].double(), values["t"], values["y"])
        print(f"{folder.name}: float32 is {(exact[1] - values['output']).abs().max():.1e} from float64")
    write(folder, weights, values)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")


def write_diffusers(folder, c, guided_channels, batch=4):
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(
        num_attention_heads=c["num_heads"], attention_head_dim=c["hidden_size"] // c["num_heads"],
        in_channels=c["in_channels"], out_channels=out_channels(c), num_layers=c["depth"],
        sample_size=c["input_size"], patch_size=c["patch_size"], num_embeds_ada_norm=c["num_classes"]).eval()
    for name, p in model.named_parameters():
        p.copy_(random_weight(name, p.shape))
    # One embedding of time and label in truth: every block has a copy of it.
    embedders = [block.norm1.emb for block in model.transformer_blocks]
    for copy in embedders[1:]:
        copy.load_state_dict(embedders[0].state_dict())
    top = []
    model.transformer_blocks[-1].register_forward_hook(lambda *call: top.append(call[-1]))

    def network(x, t, y):
        output = model(x, t, y).sample
        return top.pop(), output

    values = expected(network, c, guided_channels, batch)
    if c is not XL:  # a bias of all keys moves no softmax; only block 0's time and label tensors stand for the others
        own = {n: p for n, p in model.named_parameters() if ".norm1.emb." not in n}
        check_scales(network, own, values, ignored=("to_k.bias",))
    model.save_pretrained(folder / "transformer")
    write(folder, None, values)


def write_vae(folder, channels, **config):
    """The decoder's weights are random enough that none could be lost unseen."""
    from diffusers import AutoencoderKL

    levels = len(channels)
    model = AutoencoderKL(block_out_channels=channels, down_block_types=["DownEncoderBlock2D"] * levels,
                          up_block_types=["UpDecoderBlock2D"] * levels, **config).eval()
    for name, p in model.named_parameters():
        if p.ndim > 1:
            p.copy_(torch.randn(p.shape) * (1.2 / math.prod(p.shape[1:]) ** 0.5))
        else:
            p.copy_(0.3 * torch.randn(p.shape) + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
    latents = torch.randn(2, model.config.latent_channels, 5, 7) * model.config.scaling_factor

    def image():
        return model.decode(latents / model.config.scaling_factor).sample

    photo = torch.rand(2, 3, 3 * 2 ** (levels - 1), 2 * 2 ** (levels - 1), generator=torch.Generator().manual_seed(7)) * 2 - 1
    law = model.encode(photo).latent_dist
    values = {"latents": latents, "image": image(), "photo": photo, "mean": law.mean * model.config.scaling_factor,
              "deviation": law.std * model.config.scaling_factor}
    for name, p in model.named_parameters():
        if name.startswith(("encoder.", "quant_conv.")) or name.endswith("to_k.bias"):
            continue
        kept = p.clone()
        p.zero_()
        change = (image() - values["image"]).pow(2).mean().sqrt()
        p.copy_(kept)
        assert change > 0.005, (name, change)
    values["bytes"] = (127.5 * values["image"] + 128).clamp(0, 255).to(torch.int32)
    print(f"{folder.name}: rms {values['image'].pow(2).mean().sqrt():.2f}, "
          f"{(values['image'].abs() > 1).float().mean():.0%} clamped")
    model.save_pretrained(folder)
    write(folder, None, values)


def write(folder, weights, values):
    folder.mkdir(parents=True, exist_ok=True)
    for name, tensors in (("model", weights), ("expected", values)):
        if tensors is not None:
            save_file({n: t.contiguous() for n, t in tensors.items()}, folder / f"{name}.safetensors")


# The schedule: float64 NumPy.


class Schedule:
    """The linear schedule of 1000 steps, respaced to `steps`; arrays by index, 0 the last transition of sampling."""

    def __init__(self, steps):
        cumulative = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
        stride = 999 / (steps - 1)
        places = [0.0]
        for _ in range(steps - 1):
            places.append(places[-1] + stride)
        self.timesteps = np.array([round(place) for place in places])
        kept = cumulative[self.timesteps]
        self.betas = 1 - kept / np.append(1.0, kept[:-1])
        alphas = 1 - self.betas
        self.alphas_cumprod = np.cumprod(alphas)
        before = np.append(1.0, self.alphas_cumprod[:-1])
        rest = 1 - self.alphas_cumprod
        self.posterior_variance = self.betas * (1 - before) / rest
        self.c1 = self.betas * np.sqrt(before) / rest
        self.c2 = (1 - before) * np.sqrt(alphas) / rest
        with np.errstate(divide="ignore"):
            self.kappa = np.sqrt(self.betas / (alphas * (1 - before)))

    def mean(self, i, x, eps):
        a = self.alphas_cumprod[i]
        mean = self.c1[i] * (x / np.sqrt(a) - np.sqrt(1 / a - 1) * eps) + self.c2[i] * x
        direct = (x - self.betas[i] / np.sqrt(1 - a) * eps) / np.sqrt(1 - self.betas[i])
        assert np.allclose(mean, direct, rtol=0, atol=1e-10 * np.abs(x).max())
        return mean


def toy_eps(x, t):
    a = t / 999
    return a * x + (1 - a) * np.tanh(x)


def toy_trajectory(rng):
    schedule, state = Schedule(20), rng.standard_normal((3, 8)).astype(np.float32)
    noise = rng.standard_normal((20, 3, 8)).astype(np.float32)
    states = [state.astype(np.float64)]
    for k, i in enumerate(reversed(range(20))):
        mean = schedule.mean(i, states[-1], toy_eps(states[-1], schedule.timesteps[i]))
        states.append(mean + np.sqrt(schedule.posterior_variance[i]) * noise[k].astype(np.float64))
    return {"toy_noise": noise, "toy_states": np.stack(states)}


def couplings(rng, cases=64, dim=16):
    """Reflection coupling of N(m_hat, sigma^2) and N(m, sigma^2), apart by 0 to 5 sigma."""
    m, xi = (rng.standard_normal((cases, dim)).astype(np.float32) for _ in range(2))
    sigma = np.exp(rng.uniform(np.log(0.005), np.log(0.2), cases)).astype(np.float32)
    u = (1 - rng.random(cases)).astype(np.float32)
    e = rng.standard_normal((cases, dim))
    apart = np.exp(rng.uniform(np.log(0.2), np.log(5), cases))
    apart[0] = 0
    m_hat = (m + (sigma * apart)[:, None] * e / np.linalg.norm(e, axis=1, keepdims=True)).astype(np.float32)
    given = {"m_hat": m_hat, "m": m, "xi": xi, "u": u, "sigma": sigma}
    m_hat, m, xi, u, sigma = (a.astype(np.float64) for a in given.values())

    delta = (m_hat - m) / sigma[:, None]
    log_ratio = -(delta * xi).sum(1) - 0.5 * (delta**2).sum(1)
    accept = np.log(u) <= log_ratio
    assert np.abs(np.log(u) - log_ratio).min() > 1e-3, "a case that float32 may decide otherwise"
    assert accept[0] and 20 <= accept.sum() <= 44, accept.sum()
    with np.errstate(invalid="ignore"):
        e = delta / np.linalg.norm(delta, axis=1, keepdims=True)
    reflected = m + sigma[:, None] * (xi - 2 * e * (e * xi).sum(1, keepdims=True))
    x = np.where(accept[:, None], m_hat + sigma[:, None] * xi, reflected)
    return {f"coupling_{n}": a for n, a in (given | {"x": x, "accept": accept.astype(np.int64)}).items()}


def check_schedule():
    """Published numbers, so that the tables are not merely consistent with themselves."""
    full, short = Schedule(1000), Schedule(250)
    assert math.isclose(full.alphas_cumprod[999], 4.0358e-5, rel_tol=1e-4)
    assert np.allclose(full.posterior_variance[[1, 100, 999]] ** 0.5, [0.00738, 0.0453, 0.1414], rtol=2e-3)
    assert np.allclose(full.kappa[[1, 100, 999]], [1.095, 0.143, 0.143], rtol=5e-3)
    assert list(short.timesteps[[0, 1, 2, -4, -3, -2, -1]]) == [0, 4, 8, 987, 991, 995, 999]
    assert math.isclose(short.kappa[1], 2.45, rel_tol=2e-3) and math.isclose(short.kappa.min(), 0.201, rel_tol=2e-3)


def write_sampler(path):
    check_schedule()
    rng = np.random.default_rng(7)
    values = {}
    for steps in (1000, 10, 50, 250):
        values |= {f"{name}_{steps}": array for name, array in vars(Schedule(steps)).items()}
    values |= toy_trajectory(rng) | couplings(rng)
    as_bits = {n: a.view(np.int64) if a.dtype == np.float64 else a for n, a in values.items()}
    save_file({n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in as_bits.items()}, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xl", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--vae", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    if options.xl:
        write_reference(options.xl / "reference", XL, (3,), batch=2)
        write_diffusers(options.xl / "diffusers", XL, (4,), batch=2)
        return
    if options.vae:
        write_vae(DATA / "vae" / "four_levels", [8, 8, 16, 16], layers_per_block=1, norm_num_groups=4)
        write_vae(DATA / "vae" / "two_levels", [4, 12], layers_per_block=2, norm_num_groups=2, latent_channels=3,
                  scaling_factor=0.5)
        return
    root = DATA / "dit"
    write_reference(root / "reference", SMALL, (3, 4))
    write_reference(root / "reference_pixel", PIXEL, (1,))
    write_diffusers(root / "diffusers", SMALL | {"depth": 2, "num_heads": 3}, (3, 4))
    write_sampler(root / "sampler.safetensors")
    total = sum(f.stat().st_size for f in root.rglob("*") if f.is_file())
    print(f"{root}: {total / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
