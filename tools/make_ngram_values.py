#!/usr/bin/env python3
"""Makes tests/data/ngram/values.safetensors: random documents of token ids, and what KenLM makes of them.

usage: make_ngram_values.py LMPLZ [FOLDER]   tests/data/ngram by default (numpy, safetensors)

LMPLZ is KenLM's estimator (https://github.com/kpu/kenlm, target lmplz; its sources are in the sdist of kenlm on PyPI).

  tokens    int32 [n]          the documents, one behind the other
  ends      int32 [documents]  behind the last token of each
  trigrams  int32 [10000, 3]   two tokens and the next, -1 for the beginning (first two places), -2 for the end (last place)
  log10     float32 [10000]    log10 P(next | the two before) under `lmplz -o 3`
"""

import pathlib
import subprocess
import sys

import numpy as np
from safetensors.numpy import save_file

VOCAB, DOCUMENTS = 1500, 300


def documents(random):
    out = []
    for _ in range(DOCUMENTS):
        last, document = 0, []
        for _ in range(random.integers(0, 60)):
            # Some words are frequent, many are seen once; half of them depend on the one before.
            step = int(VOCAB * random.random() ** 6)
            last = (last * 7 + step // 50) % VOCAB if random.random() < 0.5 else step
            document.append(last)
        out.append(document)
    return out


def read_arpa(text):
    """log10 p and back-off weight by words."""
    law = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) >= 2:
            law[tuple(fields[1].split())] = (float(fields[0]), float(fields[2]) if len(fields) > 2 else 0.0)
    return law


def score(law, words):
    """The rule of the format."""
    if words in law:
        return law[words][0]
    if len(words) == 1:
        return law[("<unk>",)][0]
    return law.get(words[:-1], (0.0, 0.0))[1] + score(law, words[1:])


def main():
    lmplz = sys.argv[1]
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "tests/data/ngram")
    random = np.random.default_rng(5)
    texts = documents(random)
    lines = "".join(" ".join(map(str, d)) + "\n" for d in texts)
    run = subprocess.run([lmplz, "-o", "3", "-S", "64M", "-T", "/tmp"], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    law = read_arpa(run.stdout.decode())
    known = {w: w for w, in (k for k in law if len(k) == 1)}
    trigrams, log10 = [], []
    for i in range(10000):
        if i % 2 == 0:  # seen, or nearly
            d = texts[random.integers(DOCUMENTS)]
            at = int(random.integers(0, len(d) + 1))
            three = ([-1, -1] + d + [-2])[at:at + 3]
            if i % 4 == 0 and three[2] >= 0:
                three[2] = int(random.integers(0, VOCAB))
        else:
            three = [int(t) for t in random.integers(0, VOCAB + 5, 3)]
        words = [{-1: "<s>", -2: "</s>"}.get(t, str(t)) for t in three]
        words = [w if w in known else "<unk>" for w in words]
        if words[:2] == ["<s>", "<s>"]:
            words = words[1:]
        trigrams.append(three)
        log10.append(score(law, tuple(words)))
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"tokens": np.array(sum(texts, []), np.int32),
               "ends": np.cumsum([len(d) for d in texts]).astype(np.int32),
               "trigrams": np.array(trigrams, np.int32),
               "log10": np.array(log10, np.float32)}, folder / "values.safetensors")


if __name__ == "__main__":
    main()
