"""forerun train under mpirun: what two processes learn is what one learns from the same batches, whatever is trained.

usage: cli_ranks_test.py FORERUN   (runs on tiny models, needs no download; FORERUN_MPIRUN names mpirun)
"""

import array
import json
import os
import subprocess
import unittest

from cli_support import FORERUN, Command, forerun, make_chat_model
from pictures import write_data

MPIRUN = os.environ.get("FORERUN_MPIRUN") or "mpirun"
DIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "dit", "reference_pixel")
BATCHES = ("--batch", "6", "--micro-batch", "3", "--steps", "4", "--evaluate-steps", "2", "--f32", "--threads", "1")


def parameters(path):
    """Name -> float32 values of the parameters in a checkpoint."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    return {name: array.array("f", data[slice(*t["data_offsets"])]) for name, t in header.items()
            if name.startswith("parameter/")}


def losses(path):
    with open(path) as f:
        lines = [json.loads(line) for line in f]
    return [line.get("held_out", line)["loss"] for line in lines if "loss" in line.get("held_out", line)]


class Ranks(Command):
    def learn(self, ranks, *args):
        out = self.path(f"of{ranks}")
        command = [FORERUN, "train", *args, "--out", out, *BATCHES]
        if ranks > 1:
            command = [MPIRUN, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--allow-run-as-root", *command]
        r = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, 0, r.stderr)
        return losses(os.path.join(out, "log.jsonl")), parameters(os.path.join(out, "checkpoint.safetensors"))

    def expect_two_to_be_one(self, *args):
        (one, a), (two, b) = self.learn(1, *args), self.learn(2, *args)
        self.assertGreaterEqual(len(one), 4)
        self.assertEqual(len(one), len(two))
        for x, y in zip(one, two):
            self.assertAlmostEqual(x, y, delta=1e-5 * abs(x))
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            most = max(abs(x) for x in a[name])
            worst = max(abs(x - y) for x, y in zip(a[name], b[name]))
            self.assertLessEqual(worst, 1e-4 * most + 1e-7, name)

    def test_a_dflash_drafter(self):
        model, answers = self.path("model"), self.path("answers")
        make_chat_model(model)
        prompts = self.path("prompts.jsonl", b"".join(b'{"prompt": "question %d"}\n' % i for i in range(12)))
        r = forerun("distill", "-m", model, "--prompts", prompts, "--out", answers, "--precision", "f32", "-n", "12")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.expect_two_to_be_one("dflash", "-t", model, "--data", answers, "--precision", "f32", "--layers", "1", "--block",
                                  "4", "--features", "0,1", "--markov", "2", "--draft-vocab", "60", "--anchors", "4",
                                  "--held-out", "0.2")

    def test_networks_of_images(self):
        data = self.path("data")
        write_data(data)
        for kind in (("dit", "--depth", "1", "--hidden", "16", "--heads", "2"), ("free", "-t", DIT), ("classifier",)):
            with self.subTest(kind[0]):
                self.dir = self.path(kind[0])
                os.mkdir(self.dir)
                self.expect_two_to_be_one(*kind, "--data", data)


if __name__ == "__main__":
    unittest.main(verbosity=1)
