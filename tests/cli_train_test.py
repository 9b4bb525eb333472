"""forerun distill and forerun train as people meet them: exit codes, one clear line for everything that is wrong.

usage: cli_train_test.py FORERUN   (runs on a tiny model of tests/data/tiny, needs no download)
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from cli_support import FORERUN, GGUF, LLAMA, Command, forerun, make_chat_model

SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "fashion-mnist")
TRAIN = ("--layers", "1", "--block", "4", "--features", "0,1", "--markov", "2", "--draft-vocab", "60", "--anchors", "4",
         "--batch", "2", "--micro-batch", "2", "--steps", "2", "--f32", "--precision", "f32", "--threads", "1")


class Training(Command):
    def setUp(self):
        super().setUp()
        self.model = self.path("model")
        make_chat_model(self.model)
        self.prompts = self.path("prompts.jsonl", b"".join(b'{"prompt": "question %d"}\n' % i for i in range(6)))
        self.answers = self.path("answers")
        self.drafter = self.path("drafter")

    def distill(self, *more):
        return ("distill", "-m", self.model, "--prompts", self.prompts, "--out", self.answers, "--precision", "f32",
                "-n", "12", "--batch-size", "2", *more)

    def train(self, *more):
        return ("train", "dflash", "-t", self.model, "--data", self.answers, "--out", self.drafter, *TRAIN, *more)

    @staticmethod
    def having(args, flag, value):
        """The same arguments with this one in place of its first value, or behind them: a flag given twice is refused
        whatever its value."""
        args = list(args)
        if flag in args:
            args[args.index(flag) + 1] = value
            return args
        return args + [flag, value]

    def make_answers(self):
        r = forerun(*self.distill("--json"))
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    # --- what works ---------------------------------------------------------------------------------------------

    def test_answers_become_a_drafter_that_leaves_greedy_text_as_it_is(self):
        made = self.make_answers()
        self.assertEqual((made["documents"], made["added"], made["dropped"]), (6, 6, 0))
        self.assertEqual(self.make_answers()["added"], 0)
        r = forerun(*self.train())
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("step 2 of 2", r.stdout)
        texts = set()
        for drafter in ("none", "dflash:" + self.drafter):
            r = forerun("generate", "-m", self.model, "--precision", "f32", "--drafter", drafter, "-p", "a b a b",
                        "--raw", "-n", "40", "--temp", "0", "--fixed-draft")
            self.assertEqual(r.returncode, 0, r.stderr)
            texts.add(r.stdout)
        self.assertEqual(len(texts), 1)
        self.refused(1, "generate", "-m", os.path.join(LLAMA, "..", "llama"), "--drafter", "dflash:" + self.drafter,
                     "-p", "a", "--raw", says=["made for a target of 3 layers"])

    def test_answers_become_medusa_heads_that_leave_greedy_text_as_it_is(self):
        self.make_answers()
        heads = self.path("heads")
        train = ("train", "medusa", "-t", self.model, "--data", self.answers, "--heads", "2", "--width", "16", "--mlp", "32",
                 "--features", "0,1", "--markov", "2", "--draft-vocab", "60", "--batch", "2", "--micro-batch", "2", "--steps",
                 "2", "--f32", "--precision", "f32", "--threads", "1")
        r = forerun(*train, "--out", heads)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("step 2 of 2", r.stdout)
        texts = set()
        for drafter in ("none", "medusa:" + heads, "medusa:" + heads + "+lookup"):
            r = forerun("generate", "-m", self.model, "--precision", "f32", "--drafter", drafter, "-p", "a b a b",
                        "--raw", "-n", "40", "--temp", "0", "--fixed-draft")
            self.assertEqual(r.returncode, 0, r.stderr)
            texts.add(r.stdout)
        self.assertEqual(len(texts), 1)
        beside = self.model + ".drafter"
        shutil.copytree(heads, beside)
        ask = ("generate", "-m", self.model, "--precision", "f32", "-p", "a b a b", "--raw", "-n", "40", "--temp", "0")
        r = forerun(*ask, "--fixed-draft")
        self.assertIn(f"drafts from medusa:{beside} too", r.stderr)
        self.assertEqual({r.stdout}, texts)
        os.truncate(os.path.join(beside, "model.safetensors"), 100)
        r = forerun(*ask)
        self.assertIn(f"left out, beside the model: {beside}", r.stderr)
        self.assertEqual({r.stdout}, texts)
        self.refused(2, *train, "--out", self.path("more"), "--init", heads, says=["--heads"])
        self.refused(2, *train, "--out", self.model, says=["choose another --out"])
        self.refused(2, "generate", "-m", self.model, "--drafter", "medusa:" + self.path("none"), "-p", "a", "--raw",
                     says=["no drafter at", "forerun train medusa"])

    def test_prompts_without_room_are_told(self):
        self.prompts = self.path("long.jsonl", json.dumps({"prompt": "x" * 400}).encode() + b'\n{"prompt": "y"}\n')
        r = forerun(*self.distill())
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("1 prompts have no answer", r.stderr)

    def test_an_interrupted_distillation_keeps_what_is_finished_and_goes_on(self):
        with open(self.path("many.jsonl"), "w") as f:
            f.writelines(json.dumps({"prompt": f"question {i}"}) + "\n" for i in range(600))
        self.prompts = self.path("many.jsonl")
        p = subprocess.Popen([FORERUN, *self.distill("--json")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(self.answers, "distill.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertIn(p.returncode, (0, 130), err)  # 0: the machine was faster than the signal
        made = json.loads(out)
        self.assertEqual(made["interrupted"], p.returncode == 130)
        if p.returncode == 130:
            self.assertLess(made["documents"], 600)
        again = self.make_answers()
        self.assertEqual((again["documents"], again["added"]), (600, 600 - made["documents"]))

    def test_answers_without_a_folder_go_where_auto_finds_them(self):
        beside = self.model + ".answers"
        made = [a for a in self.distill("--json") if a not in ("--out", self.answers)]
        ask = ("generate", "-m", self.model, "-p", "question 1", "--precision", "f32", "-n", "12", "--temp", "0", "--json")
        plain = forerun(*ask)
        self.assertNotIn("drafts from", plain.stderr)
        r = forerun(*made)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual((json.loads(r.stdout)["folder"], json.loads(r.stdout)["documents"]), (beside, 6))
        drafted = forerun(*ask)
        self.assertIn(f"drafts from sam:{beside} too", drafted.stderr)
        self.assertEqual(json.loads(drafted.stdout)["tokens"], json.loads(plain.stdout)["tokens"])
        self.assertNotIn("drafts from", forerun(*ask, "-d", "lookup").stderr)
        self.refused(2, *self.having(made, "-n", "13"), says=["max_tokens", "--out", beside])
        with open(os.path.join(beside, "distill.json"), "w") as f:
            f.write("{")
        broken = forerun(*ask)
        self.assertIn("left out", broken.stderr)
        self.assertEqual(json.loads(broken.stdout)["tokens"], json.loads(plain.stdout)["tokens"])

    def test_answers_become_trigrams_which_replace_nothing_that_is_read(self):
        self.make_answers()
        arpa = os.path.join(self.answers, "a.arpa")
        for _ in range(2):  # an ARPA file is replaced
            r = forerun("train", "ngram", "--data", self.answers, "--out", arpa)
            self.assertEqual((r.returncode, r.stdout.split(": ")[1].split(" of")[0]), (0, "6 documents"), r.stderr)
        shard = os.path.join(self.answers, "tokens-00000.safetensors")
        gguf = self.path("m.gguf", b"GGUF" + bytes(100))
        self.refused(2, "train", "ngram", "--data", self.answers, "--out", shard, says=["would replace"])
        self.refused(2, "train", "ngram", "--data", self.answers, "--out", gguf, says=["no ARPA file"])
        self.assertEqual(os.path.getsize(gguf), 104)
        os.mkdir(self.path("empty"))
        self.refused(2, *self.train("--data", self.path("empty")), says=["empty", "holds no answers"])

    # --- what is refused ----------------------------------------------------------------------------------------

    def test_distill_misuse_is_exit_code_2(self):
        self.assertEqual(forerun("distill").returncode, 2)
        self.assertEqual(forerun("distill", "-m", self.model).returncode, 2)
        for flag, value in (("--temp", "-1"), ("--temp", "x"), ("--top-p", "2"), ("--batch-size", "0"), ("-n", "0"),
                            ("--self-prompts", "-1"), ("--self-temp", "0"), ("--no-such-flag", "1")):
            self.assertEqual(forerun(*self.having(self.distill(), flag, value)).returncode, 2, flag)
        self.refused(2, *self.distill("--top-p", "1.5"), says=["top-p"])
        self.refused(2, "distill", "-m", self.model, "--out", self.answers, says=["prompts"])
        self.refused(2, "distill", "-m", self.path("none"), "--prompts", self.prompts, "--out", self.answers,
                     says=["none"])
        self.refused(2, "distill", "-m", GGUF, "--prompts", self.prompts, "--out", self.answers, says=["chat template"])
        self.refused(2, "distill", "-m", self.model, "--prompts", self.path("no.jsonl"), "--out", self.answers,
                     says=["no.jsonl"])
        self.refused(2, "distill", "-m", self.model, "--self-prompts", "2", "--out", self.answers, says=["self-prompts"])
        self.assertFalse([n for n in os.listdir(self.answers) if "tokens" in n] if os.path.exists(self.answers) else [])
        self.assertFalse(os.path.exists(self.model + ".answers"))

    def test_distill_with_other_options_into_the_same_folder_is_refused(self):
        self.make_answers()
        before = sorted(os.listdir(self.answers))
        self.refused(2, *self.distill("--temp", "0.5"), says=[self.answers, "temperature = 0.0, not 0.5", "--out"])
        self.refused(2, *self.distill("--seed", "5"), says=["seed"])
        self.assertEqual(sorted(os.listdir(self.answers)), before)

    def test_distill_into_a_drafters_folder_leaves_it_as_it_is(self):
        self.answers = self.path("model of another kind")
        shutil.copytree(os.path.join(SHIPPED, "free"), self.answers)
        before = sorted(os.listdir(self.answers))
        self.refused(2, *self.distill(), says=[self.answers, "no distill.json", "--out"])
        self.assertEqual(sorted(os.listdir(self.answers)), before)

    def test_distill_failures_are_exit_code_1(self):
        self.answers = self.path("file", b"precious")
        self.refused(1, *self.distill(), says=[self.answers])
        self.answers = os.path.join(self.answers, "below")
        self.refused(1, *self.distill(), says=[self.answers])
        self.answers = self.path("answers")
        self.make_answers()
        with open(os.path.join(self.answers, "tokens-00000.safetensors"), "r+b") as f:
            f.truncate(100)
        self.refused(1, *self.distill(), says=["tokens-00000.safetensors"])

    def test_train_misuse_is_exit_code_2(self):
        self.assertEqual(forerun("train").returncode, 2)
        self.assertEqual(forerun("train", "magic").returncode, 2)
        self.assertEqual(forerun("train", "dflash").returncode, 2)
        self.make_answers()
        for flag, value in (("--layers", "0"), ("--layers", "65"), ("--block", "1"), ("--block", "65"),
                            ("--distill", "1.5"), ("--held-out", "1"), ("--features", "a"), ("--precision", "f16"),
                            ("--epochs", "x"), ("--markov-head", "rnn"), ("--law-loss", "l2"), ("--no-such-flag", "1")):
            self.assertEqual(forerun(*self.having(self.train(), flag, value)).returncode, 2, flag)
        for flag, value, word in (("--lr", "0", "learning rate"), ("--batch", "0", "batch"), ("--gamma", "0", "gamma"),
                                  ("--gamma", "nan", "gamma"), ("--anchors", "0", "anchors"), ("--length", "1", "length"),
                                  ("--markov", "-1", "markov"), ("--draft-vocab", "-1", "draft-vocab"),
                                  ("--selector", "4", "leave out --markov"),
                                  ("--features", "0,2", "feature layer 2"), ("--features", "-1", "feature layer -1"),
                                  ("--layers", "4", "begin at random"), ("--clip", "-1", "gradient"),
                                  ("--warmup", "1", "warm-up"), ("--time-limit", "-1", "time limit"),
                                  ("--device", "cuda:99", "--precision")):
            self.refused(2, *self.having(self.train(), flag, value), says=[word])
        for device, word in (("gpu", "cuda:N"), ("cuda:", "cuda:N"), ("cuda:99", "cuda:99")):
            self.refused(2, "train", "dflash", "-t", self.model, "--data", self.answers, "--out", self.drafter, "--device", device,
                         says=[word])
        self.assertEqual(forerun("train", "dit", "--data", self.path("none"), "--out", self.drafter, "--device", "cuda").returncode, 2)
        self.refused(2, "train", "dflash", "-t", self.path("none"), "--data", self.answers, "--out", self.drafter,
                     says=["none"])
        self.refused(2, "train", "dflash", "-t", self.model, "--data", self.answers, "--out", self.model, *TRAIN,
                     says=["another model", "--out"])
        empty = self.path("empty")
        os.mkdir(empty)
        self.refused(2, "train", "dflash", "-t", self.model, "--data", empty, "--out", self.drafter, *TRAIN,
                     says=["forerun distill"])
        # Answers of a larger vocabulary than the target's.
        self.refused(2, "train", "dflash", "-t", os.path.join(LLAMA, "..", "qwen3"), "--data", self.answers, "--out",
                     self.drafter, *TRAIN, "--random", says=["another model"])
        self.assertFalse(os.path.exists(self.drafter))

    def test_the_part_of_libtorch_for_gpus_is_loaded_only_where_a_driver_is(self):
        def loaded(**environment):
            r = forerun("--version", env={**os.environ, "LD_DEBUG": "files", **environment})
            return {os.path.basename(path): path for path in re.findall(r"calling init: (\S+)", r.stderr)}

        folder = os.path.dirname(loaded()["libtorch_cpu.so"])
        if not os.path.exists(os.path.join(folder, "libtorch_cuda.so")):
            self.skipTest("a libtorch without CUDA")
        self.assertEqual("libtorch_cuda.so" in loaded(), "libcuda.so.1" in loaded())
        driver = self.path("libcuda.so.1")
        subprocess.run(["cc", "-shared", "-x", "c", "-o", driver, os.devnull], check=True)
        self.assertIn("libtorch_cuda.so", loaded(LD_LIBRARY_PATH=self.dir))
        r = forerun("train", "dflash", "-t", self.model, "--data", self.answers, "--out", self.drafter, "--device", "cuda",
                    env={**os.environ, "LD_LIBRARY_PATH": self.dir})
        self.assertEqual((r.returncode, len(r.stderr.splitlines())), (2, 1), r.stderr)
        self.assertIn("no GPU", r.stderr)

    def test_a_model_without_its_run_is_never_overwritten(self):
        for kind, *target in (("dit",), ("classifier",), ("free", "-t", os.path.join(SHIPPED, "dit"))):
            model = self.path(kind)
            shutil.copytree(os.path.join(SHIPPED, kind), model)
            self.refused(2, "train", kind, *target, "--data", self.path("none"), "--out", model,
                         says=[model, "overwritten", "--out"])
            for name in os.listdir(model):
                with open(os.path.join(model, name), "rb") as a, open(os.path.join(SHIPPED, kind, name), "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)

    def test_init_keeps_its_drafters_design_and_says_so(self):
        self.make_answers()
        r = forerun(*self.train())
        self.assertEqual(r.returncode, 0, r.stderr)
        again = ("train", "dflash", "-t", self.model, "--data", self.answers, "--out", self.path("again"), "--steps", "1",
                 "--batch", "2", "--f32", "--precision", "f32", "--init", self.drafter)
        for flag in (("--layers", "2"), ("--features", "0,1"), ("--draft-vocab", "8192"), ("--markov", "64"),
                     ("--markov-head", "gated"), ("--selector", "64"),
                     ("--own-position",), ("--random",), ("--no-confidence",), ("--no-slot-state",)):
            self.refused(2, *again, *flag, says=[flag[0], "--init"])
        self.assertFalse(os.path.exists(self.path("again")))
        r = forerun(*again, "--block", "3", "--anchors", "4", "--conv")
        self.assertEqual(r.returncode, 0, r.stderr)
        dit = os.path.join(SHIPPED, "dit")
        self.refused(2, "train", "dit", "--data", self.path("none"), "--out", self.path("dit"), "--init", dit, "--depth",
                     "3", says=["--depth", "--init"])
        self.refused(2, "train", "free", "-t", dit, "--data", self.path("none"), "--out", self.path("free"), "--init",
                     os.path.join(SHIPPED, "free"), "--no-frozen-image", says=["--no-frozen-image", "--init"])

    def test_train_failures_are_exit_code_1(self):
        self.refused(1, *self.train(), says=[self.answers, "cannot be read"])
        self.make_answers()
        # Several folders after one flag.
        self.refused(1, "train", "dflash", "-t", self.model, "--data", self.answers, self.path("none"), "--out",
                     self.drafter, *TRAIN, says=[self.path("none"), "cannot be read"])
        self.drafter = self.path("file", b"precious")
        self.refused(1, *self.train(), says=[self.drafter])
        self.drafter = self.path("drafter")
        precious = self.path("file")
        self.refused(1, *self.train("--state-store", precious), says=[precious, "--state-store"])
        with open(precious, "rb") as f:
            self.assertEqual(f.read(), b"precious")
        shard = os.path.join(self.answers, "tokens-00000.safetensors")
        with open(shard, "r+b") as f:
            f.truncate(os.path.getsize(shard) - 1)
        self.refused(1, *self.train(), says=["tokens-00000.safetensors"])
        self.assertFalse(os.path.exists(self.drafter))

    def test_a_run_goes_on_with_the_same_options_alone(self):
        self.make_answers()
        r = forerun(*self.train("--time-limit", "1e-9"))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("time limit after step 1 of 2", r.stdout)
        self.refused(2, *self.train("--gamma", "5"), says=["gamma=4", "gamma=5"])
        r = forerun(*self.train())
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("done after step 2 of 2", r.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=1)
