"""forerun train under mpirun: what two processes learn is what one learns from the same batches, whatever is trained.

usage: cli_ranks_test.py FORERUN   (runs on tiny models, needs no download; FORERUN_MPIRUN names mpirun)
"""

import array
import json
import os
import signal
import subprocess
import time
import unittest

from cli_support import FORERUN, Command, forerun, make_chat_model
from pictures import write_data

MPIRUN = os.environ.get("FORERUN_MPIRUN") or "mpirun"
DIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "dit", "reference_pixel")
TINY_DIT = ("dit", "--depth", "1", "--hidden", "16", "--heads", "2")
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


def on_ranks(ranks, *args):
    """The command line of `forerun train ARGS` on so many ranks."""
    start = [MPIRUN, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--allow-run-as-root"] if ranks > 1 else []
    return [*start, FORERUN, "train", *args]


def rank_of(pid):
    """The rank of a process, None if it has none."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            found = [v[len(b"OMPI_COMM_WORLD_RANK="):] for v in f.read().split(b"\0")
                     if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
        return int(found[0]) if found else None
    except OSError:
        return None


class Ranks(Command):
    def learn(self, ranks, *args):
        out = self.path(f"of{ranks}")
        r = subprocess.run(on_ranks(ranks, *args, "--out", out, *BATCHES), capture_output=True, text=True, timeout=120,
                           stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, 0, r.stderr)
        for line in ("done after step", "matrix products", "curves.html"):
            self.assertEqual(r.stdout.count(line), 1, r.stdout)
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

    def answers_of_a_model(self):
        model, answers = self.path("model"), self.path("answers")
        make_chat_model(model)
        prompts = self.path("prompts.jsonl", b"".join(b'{"prompt": "question %d"}\n' % i for i in range(12)))
        r = forerun("distill", "-m", model, "--prompts", prompts, "--out", answers, "--precision", "f32", "-n", "12")
        self.assertEqual(r.returncode, 0, r.stderr)
        return model, answers

    def test_a_dflash_drafter(self):
        model, answers = self.answers_of_a_model()
        self.expect_two_to_be_one("dflash", "-t", model, "--data", answers, "--precision", "f32", "--layers", "1", "--block",
                                  "4", "--features", "0,1", "--markov", "2", "--draft-vocab", "60", "--anchors", "4",
                                  "--held-out", "0.2")

    def test_medusa_heads(self):
        model, answers = self.answers_of_a_model()
        self.expect_two_to_be_one("medusa", "-t", model, "--data", answers, "--precision", "f32", "--heads", "2", "--width",
                                  "16", "--mlp", "32", "--features", "0,1", "--markov", "2", "--draft-vocab", "60", "--anchors",
                                  "4", "--held-out", "0.2")

    def test_adapters_of_a_target(self):
        model, answers = self.answers_of_a_model()
        self.expect_two_to_be_one("tidar", "-t", model, "--data", answers, "--lora", "2", "--markov", "2", "--held-out", "0.2")

    def test_a_whole_model_that_drafts_for_itself(self):
        model, answers = self.answers_of_a_model()
        self.expect_two_to_be_one("tidar", "--full", "-t", model, "--data", answers, "--markov", "2", "--held-out", "0.2")

    def test_networks_of_images(self):
        data = self.path("data")
        write_data(data)
        for kind in (TINY_DIT, ("free", "-t", DIT), ("classifier",)):
            with self.subTest(kind[0]):
                self.dir = self.path(kind[0])
                os.mkdir(self.dir)
                self.expect_two_to_be_one(*kind, "--data", data)

    # --- what is said when it fails: one line, by one rank; mpirun adds lines of its own ---

    def said_once(self, stderr, *words):
        lines = [line for line in stderr.splitlines() if line.startswith("forerun: ")]
        self.assertEqual(len(lines), 1, stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def fails(self, *args):
        r = subprocess.run(on_ranks(2, *args), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertNotEqual(r.returncode, 0)
        self.assertEqual(r.stdout.count("after step"), 0, r.stdout)
        return r.stderr

    def test_a_loss_that_is_no_number_is_said_once(self):
        data = self.path("data")
        write_data(data)
        self.said_once(self.fails(*TINY_DIT, "--data", data, "--out", self.path("out"), "--batch", "6", "--micro-batch", "3",
                                  "--steps", "20", "--f32", "--threads", "1", "--lr", "10", "--weight-decay", "1000",
                                  "--warmup", "0", "--clip", "0"), "not finite")

    def test_what_cannot_begin_is_said_once(self):
        none, out = self.path("none"), self.path("out")
        self.said_once(self.fails("dit", "--data", none, "--out", out, *BATCHES), none)
        self.said_once(self.fails("dflash", "-t", none, "--data", none, "--out", out, *BATCHES), none)
        self.said_once(self.fails("free", "-t", none, "--data", none, "--out", out, *BATCHES), none)
        self.assertFalse(os.path.exists(out))

    def test_a_rank_that_is_killed_is_told_by_one_of_the_others(self):
        data = self.path("data")
        write_data(data)
        for victim, ranks in ((2, 3), (0, 3)):
            with self.subTest(victim=victim):
                out = self.path(f"out{victim}")
                p = subprocess.Popen(on_ranks(ranks, *TINY_DIT, "--data", data, "--out", out, *BATCHES[:4], "--steps",
                                              "1000000", "--f32", "--threads", "1"), stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                self.addCleanup(p.kill)
                log, deadline = os.path.join(out, "log.jsonl"), time.monotonic() + 60
                while not (os.path.exists(log) and os.path.getsize(log) > 4000):
                    self.assertLess(time.monotonic(), deadline)
                    self.assertIsNone(p.poll())
                    time.sleep(0.02)
                with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
                    children = f.read().split()
                os.kill(next(int(c) for c in children if rank_of(c) == victim), signal.SIGKILL)
                self.said_once(p.communicate(timeout=60)[1], f"rank {victim} (process ", "is gone")
                self.assertNotEqual(p.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
