#!/usr/bin/env python3
"""Makes tests/data/classifier/ and tests/data/metrics/: small random classifiers of images with what PyTorch computes
of them, and Frechet distances, precision and recall of small sets of features by NumPy and SciPy.

usage: make_evaluation_values.py [FOLDER]   tests/data by default (torch, safetensors, numpy, scipy)

classifier/NAME/        config.json and model.safetensors (float32) of forerun
  expected.safetensors  x [3, C, S, S]; logits [3, classes], features [3, F], spatial [3, 7 s s]
metrics/values.json     a list of cases: features "references" [n, d] and "samples" [m, d]; frechet (SciPy's sqrtm, float64),
                        precision and recall with k = 3
"""

import json
import pathlib
import sys

import numpy as np
import scipy.linalg
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

CLASSIFIERS = {
    "grey": {"architecture": "classifier", "input_size": 28, "in_channels": 1, "num_classes": 5, "width": 8,
             "feature_size": 12},
    "colour": {"architecture": "classifier", "input_size": 40, "in_channels": 3, "num_classes": 3, "width": 8,
               "feature_size": 6},
}


def classifier(c, w, x):
    for i in range(3):
        x = F.max_pool2d(F.conv2d(x, w[f"stages.{i}.conv.weight"], padding=1), 2)
        x = F.gelu(F.group_norm(x, 8, w[f"stages.{i}.norm.weight"], w[f"stages.{i}.norm.bias"]))
        if i == 1:
            spatial = F.adaptive_avg_pool2d(x[:, :7], min(c["input_size"] // 4, 8)).flatten(1)
    flat = F.adaptive_avg_pool2d(x, min(c["input_size"] // 8, 4)).flatten(1)
    features = F.gelu(F.linear(flat, w["features.weight"], w["features.bias"]))
    return F.linear(features, w["classes.weight"], w["classes.bias"]), features, spatial


def make_classifier(folder, c):
    widths = [c["in_channels"]] + [c["width"] << i for i in range(3)]
    shapes = {}
    for i in range(3):
        shapes |= {f"stages.{i}.conv.weight": (widths[i + 1], widths[i], 3, 3),
                   f"stages.{i}.norm.weight": (widths[i + 1],), f"stages.{i}.norm.bias": (widths[i + 1],)}
    shapes |= {"features.weight": (c["feature_size"], widths[3] * min(c["input_size"] // 8, 4) ** 2),
               "features.bias": (c["feature_size"],), "classes.weight": (c["num_classes"], c["feature_size"]),
               "classes.bias": (c["num_classes"],)}
    weights = {name: torch.randn(shape) * (0.3 if len(shape) > 1 else 0.5) for name, shape in shapes.items()}
    x = torch.rand(3, c["in_channels"], c["input_size"], c["input_size"]) * 2 - 1
    logits, features, spatial = classifier(c, weights, x)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=2) + "\n")
    save_file(weights, folder / "model.safetensors")
    save_file({"x": x, "logits": logits, "features": features, "spatial": spatial}, folder / "expected.safetensors")


def frechet(a, b):
    shift = a.mean(0) - b.mean(0)
    ca, cb = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    return float(shift @ shift + np.trace(ca + cb - 2 * scipy.linalg.sqrtm(ca @ cb).real))


def radii(x, k=3):
    distances = np.linalg.norm(x[:, None] - x[None], axis=2)
    return np.sort(distances, axis=1)[:, k]  # 0 is the image itself


def precision_recall(references, samples):
    distances = np.linalg.norm(samples[:, None] - references[None], axis=2)
    return (float((distances <= radii(references)[None]).any(1).mean()),
            float((distances <= radii(samples)[:, None]).any(0).mean()))


def make_metrics(folder):
    rng = np.random.default_rng(0)
    cases = []
    for n, m, d, scale, shift in ((40, 30, 4, 1.0, 0.0), (30, 50, 6, 1.5, 0.4), (25, 20, 3, 0.3, 0.2), (60, 6, 8, 1.0, 0.1)):
        mix = rng.normal(size=(d, d))
        references = np.round(rng.normal(size=(n, d)) @ mix, 4)
        samples = np.round(scale * rng.normal(size=(m, d)) @ mix + shift, 4)
        precision, recall = precision_recall(references, samples)
        cases.append({"references": references.tolist(), "samples": samples.tolist(),
                      "frechet": frechet(references, samples), "precision": precision, "recall": recall})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "values.json").write_text(json.dumps(cases) + "\n")


def main():
    data = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "tests/data"
    torch.manual_seed(0)
    for name, config in CLASSIFIERS.items():
        make_classifier(data / "classifier" / name, config)
    make_metrics(data / "metrics")


if __name__ == "__main__":
    main()
