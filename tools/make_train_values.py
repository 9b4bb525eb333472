#!/usr/bin/env python3
"""Writes tests/data/train/optimizer.json: what torch.optim.AdamW (not fused), clip_grad_norm_ and
LambdaLR make of a few parameters and gradients, in float64; and muon.json: what torch.optim.Muon
makes of two matrices (its iterations are in bfloat16).

usage: make_train_values.py [FOLDER]   needs torch
"""
import json
import math
import sys
from pathlib import Path

import torch

STEPS, WARMUP, RATE, MIN_RATE = 12, 3, 3e-2, 0.1
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0


def schedule(step: int) -> float:
    """Share of the rate at step 0, 1, ...: linear to 1, then a cosine to MIN_RATE at the last step."""
    if step < WARMUP:
        return (step + 1) / (WARMUP + 1)
    done = (step - WARMUP) / (STEPS - WARMUP - 1)
    return MIN_RATE + (1 - MIN_RATE) * 0.5 * (1 + math.cos(math.pi * done))


def muon() -> dict:
    torch.manual_seed(1)
    shapes = [(12, 20), (24, 8)]
    parameters = [torch.randn(s).float().requires_grad_() for s in shapes]
    optimizer = torch.optim.Muon(parameters, lr=RATE, weight_decay=DECAY, momentum=0.95,
                                 adjust_lr_fn="match_rms_adamw")
    flat = lambda tensors: [[round(x, 7) for x in t.detach().flatten().tolist()] for t in tensors]
    out = {"rate": RATE, "weight_decay": DECAY, "momentum": 0.95, "shapes": shapes, "start": flat(parameters), "steps": []}
    for _ in range(3):
        gradients = [torch.randn(s).float() for s in shapes]
        for p, g in zip(parameters, gradients):
            p.grad = g.clone()
        optimizer.step()
        out["steps"].append({"gradients": flat(gradients), "after": flat(parameters)})
    return out


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "tests/data/train")
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    shapes = [(3, 4), (5,), (2, 1, 2)]
    parameters = [torch.randn(s).float().double().requires_grad_() for s in shapes]
    groups = [  # the second is not decayed, the third learns at half the rate
        {"params": [parameters[0]], "lr": RATE, "weight_decay": DECAY},
        {"params": [parameters[1]], "lr": RATE, "weight_decay": 0.0},
        {"params": [parameters[2]], "lr": 0.5 * RATE, "weight_decay": DECAY},
    ]
    optimizer = torch.optim.AdamW(groups, betas=BETAS, eps=EPS, fused=False, foreach=False)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    flat = lambda tensors: [t.detach().flatten().tolist() for t in tensors]
    out = {"rate": RATE, "min_rate": MIN_RATE, "warmup": WARMUP, "betas": BETAS, "epsilon": EPS, "weight_decay": DECAY,
           "clip": CLIP, "shapes": shapes, "start": flat(parameters), "steps": []}
    for step in range(STEPS):
        gradients = [(torch.randn(s) * (0.05 if step % 3 else 2.0)).float().double() for s in shapes]
        for p, g in zip(parameters, gradients):
            p.grad = g.clone()
        rate = optimizer.param_groups[0]["lr"]
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        rates.step()
        out["steps"].append({"gradients": flat(gradients), "rate": rate, "norm": norm.item(), "after": flat(parameters)})
    state = [optimizer.state[p] for p in parameters]
    out["first_moments"] = flat(s["exp_avg"] for s in state)
    out["second_moments"] = flat(s["exp_avg_sq"] for s in state)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "optimizer.json").write_text(json.dumps(out) + "\n")
    (folder / "muon.json").write_text(json.dumps(muon()) + "\n")


if __name__ == "__main__":
    main()
