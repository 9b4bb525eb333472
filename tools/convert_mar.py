#!/usr/bin/env python3
"""Makes folders that forerun loads of LTH14/mar's published checkpoints, which are pickles.

usage: convert_mar.py network CHECKPOINT FOLDER [--weights model_ema|model]
           config.json and model.safetensors of a MAR network; its sizes are those of its tensors
       convert_mar.py vae CHECKPOINT FOLDER
           config.json and diffusion_pytorch_model.safetensors of the KL-16 decoder, in diffusers' layout

Needs torch and safetensors (requirements.txt). The pickle is read with weights_only, which builds tensors and plain
values and runs no code of the file; forerun itself never reads one.
"""

import argparse
import json
import pathlib
import re
import sys

# Heads of attention by width: the tensors do not tell.
HEADS = {768: 12, 1024: 16, 1280: 16}


def fail(message):
    sys.exit(f"convert_mar: {message}")


def count(weights, pattern):
    found = [int(m[1]) for name in weights if (m := re.match(pattern, name))]
    return max(found) + 1 if found else 0


def network_config(w, heads=None):
    """The config.json of a network with these tensors (anything with a shape)."""
    d, dim = w["z_proj.weight"].shape
    tokens = w["diffusion_pos_embed_learned"].shape[1]
    side = round(tokens ** 0.5)
    if side * side != tokens:
        fail(f"{tokens} tokens are no square")
    heads = heads or HEADS.get(d)
    if heads is None:
        fail(f"width {d} is none of {sorted(HEADS)}; give --heads")
    return {"architecture": "mar", "form": "masked", "side": side, "channels": dim, "patch_size": 1,
            "num_classes": w["class_emb.weight"].shape[0], "hidden_size": d, "num_heads": heads,
            "mlp_size": w["encoder_blocks.0.mlp.fc1.weight"].shape[0],
            "depth": count(w, r"encoder_blocks\.(\d+)\."), "decoder_depth": count(w, r"decoder_blocks\.(\d+)\."),
            "buffer_size": w["encoder_pos_embed_learned"].shape[1] - tokens,
            "head_width": w["diffloss.net.input_proj.weight"].shape[0],
            "head_blocks": count(w, r"diffloss\.net\.res_blocks\.(\d+)\."),
            "prediction": "noise", "modulation": "joint"}


def vae_names(w):
    """diffusers' name of each tensor of the autoencoder."""
    levels = count(w, r"decoder\.up\.(\d+)\.")
    out = {}
    for name in w:
        if not name.startswith(("encoder.", "decoder.", "quant_conv.", "post_quant_conv.")):
            continue
        new = re.sub(r"up\.(\d+)\.block\.(\d+)", lambda m: f"up_blocks.{levels - 1 - int(m[1])}.resnets.{m[2]}", name)
        new = re.sub(r"up\.(\d+)\.upsample", lambda m: f"up_blocks.{levels - 1 - int(m[1])}.upsamplers.0", new)
        new = re.sub(r"down\.(\d+)\.block\.(\d+)", r"down_blocks.\1.resnets.\2", new)
        new = re.sub(r"down\.(\d+)\.attn\.(\d+)", r"down_blocks.\1.attentions.\2", new)
        new = re.sub(r"down\.(\d+)\.downsample", r"down_blocks.\1.downsamplers.0", new)
        new = re.sub(r"mid\.block_(\d)", lambda m: f"mid_block.resnets.{int(m[1]) - 1}", new)
        new = new.replace("mid.attn_1.", "mid_block.attentions.0.")
        if ".attentions." in new:
            new = re.sub(r"\.norm\.", ".group_norm.", new)
            new = re.sub(r"\.([qkv])\.(weight|bias)$", r".to_\1.\2", new).replace("proj_out", "to_out.0")
        new = new.replace("nin_shortcut", "conv_shortcut")
        out[name] = re.sub(r"^(en|de)coder\.norm_out", r"\1coder.conv_norm_out", new)
    return out


def vae_config(w):
    levels = count(w, r"decoder\.up\.(\d+)\.")
    widths = [w[f"decoder.up.{i}.block.0.conv2.weight"].shape[0] for i in range(levels)]
    down = ["AttnDownEncoderBlock2D" if f"encoder.down.{i}.attn.0.q.weight" in w else "DownEncoderBlock2D"
            for i in range(levels)]
    return {"_class_name": "AutoencoderKL", "latent_channels": w["decoder.conv_in.weight"].shape[1],
            "block_out_channels": widths, "layers_per_block": count(w, r"decoder\.up\.0\.block\.(\d+)\.") - 1,
            "down_block_types": down, "up_block_types": ["UpDecoderBlock2D"] * levels,
            "norm_num_groups": 32, "act_fn": "silu", "in_channels": 3, "out_channels": 3, "scaling_factor": 0.2325}


def write(folder, file, tensors, config):
    from safetensors.torch import save_file
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / file)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def read(path, entry):
    import torch
    # The published files also hold the command line of their training.
    torch.serialization.add_safe_globals([argparse.Namespace])
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    if entry not in checkpoint:
        fail(f"{path} has no entry '{entry}', only {sorted(checkpoint)}")
    return {name: x.float() for name, x in checkpoint[entry].items() if hasattr(x, "float")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["network", "vae"])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--weights", default="model_ema", choices=["model_ema", "model"])
    parser.add_argument("--heads", type=int)
    a = parser.parse_args()
    if a.kind == "network":
        w = read(a.checkpoint, a.weights)
        write(a.folder, "model.safetensors", w, network_config(w, a.heads))
        return
    w = read(a.checkpoint, "model")
    names = vae_names(w)
    tensors = {}
    for name, new in names.items():
        x = w[name]
        # Products of the attention are 1x1 convolutions in the checkpoint.
        tensors[new] = x[:, :, 0, 0] if ".attentions." in new and x.dim() == 4 else x
    write(a.folder, "diffusion_pytorch_model.safetensors", tensors, vae_config(w))


if __name__ == "__main__":
    main()
