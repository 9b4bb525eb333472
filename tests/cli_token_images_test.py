"""The verbs on image-token models as people meet them: exit codes, one clear line for all that is wrong.

usage: cli_token_images_test.py FORERUN   (trains tiny models itself, needs no download)
"""

import os
import pickle
import shutil
import tempfile
import unittest

from cli_support import GGUF, Command, forerun
from pictures import write_data

DIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "dit", "reference_pixel")
TINY = ("--hidden", "32", "--heads", "2", "--depth", "1", "--head-width", "32", "--head-blocks", "1")


class TokenImages(Command):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp()
        cls.data = os.path.join(cls.shared, "data")
        write_data(cls.data)
        for name, more in (("mar", ("--patch", "4")), ("coarse", ("--patch", "8")), ("other", ("--patch", "4", "--seed", "5"))):
            cls.train("mar", name, *more)
        cls.train("cspd", "draft", "--target", cls.model("mar"))
        cls.train("cspd", "of-other", "--target", cls.model("other"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    @classmethod
    def model(cls, name):
        return os.path.join(cls.shared, name)

    @classmethod
    def train(cls, what, name, *more):
        r = forerun("train", what, "--data", cls.data, "--out", cls.model(name), "--steps", "2", "--batch", "8",
                    "--micro-batch", "8", "--threads", "1", "--f32", *TINY, *more)
        assert r.returncode == 0, r.stderr

    def run_on(self, verb, *more, threads="1"):
        out = ("--out", self.path("grid.png")) if verb == "generate" else ()
        return (verb, "-m", self.model("mar"), "--steps", "6", "--threads", threads, *out, *more)

    def picture(self, *more, threads="1"):
        r = forerun(*self.run_on("generate", "--count", "3", *more, threads=threads))
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(self.path("grid.png"), "rb") as f:
            return r, f.read()

    def refused(self, *args, code=2, says=()):
        r = forerun(*args)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
        for word in says:
            self.assertIn(word, r.stderr)

    def test_the_same_seed_makes_the_same_images(self):
        for more in ((), ("--drafter", "self", "--fixed-draft"), ("--drafter", "cspd:" + self.model("draft"), "--fixed-draft")):
            _, first = self.picture(*more)
            self.assertEqual(self.picture(*more, "--batch-size", "1", threads="2")[1], first)
        self.assertNotEqual(self.picture("--seed", "1")[1], self.picture()[1])

    def test_the_masked_form_is_trained_and_sampled_and_takes_no_drafter(self):
        masked = self.model("masked")
        if not os.path.exists(masked):
            self.train("mar", "masked", "--patch", "4", "--masked", "--decoder-depth", "2", "--buffer", "2")
        args = ("--steps", "6", "--threads", "1", "--count", "3", "--out", self.path("grid.png"))
        r = forerun("generate", "-m", masked, "--passes", "4", *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("in 4.0 target passes an image", r.stderr)
        self.refused("generate", "-m", masked, "--passes", "5000", *args)
        self.refused("generate", "-m", masked, "--drafter", "self", *args, says=["masked form", "drafter none"])
        self.refused("generate", "-m", self.model("mar"), "--passes", "4", *args, says=["masked form"])
        self.refused("train", "cspd", "--target", masked, "--data", self.data, "--out", self.path("d"), says=["masked form"])
        self.refused("train", "mar", "--data", self.data, "--out", self.path("m"), "--buffer", "2", says=["masked form"])

    def test_a_draft_of_the_target_makes_the_plain_image(self):
        plain = self.picture()[1]
        self.assertEqual(self.picture("--drafter", "cspd:" + self.model("mar"), "--fixed-draft")[1], plain)

    def test_every_rule_says_what_it_is(self):
        for rule, word in (("stepwise", "exact"), ("path", "exact"), ("paper", "INEXACT"), ("code", "INEXACT")):
            r, _ = self.picture("--drafter", "cspd:" + self.model("draft"), "--rule", rule)
            self.assertIn(f"rule {rule} ({word})", r.stderr)
            self.assertIn("final step truncate", r.stderr)

    def test_certify_passes_exact_rules(self):
        for more in (("--drafter", "cspd:" + self.model("draft")), ("--drafter", "self"),
                     ("--drafter", "cspd:" + self.model("draft"), "--rule", "path")):
            r = forerun(*self.run_on("certify", "--count", "8", *more))
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            self.assertIn("PASS", r.stdout)
        r = forerun(*self.run_on("certify", "--count", "2"))
        self.assertEqual(r.returncode, 1)
        self.assertIn("NOTHING DRAFTED", r.stdout)

    def test_a_trace_shows_every_token(self):
        trace = self.path("trace.html")
        self.picture("--drafter", "cspd:" + self.model("draft"), "--trace", trace)
        page = self.page_data(trace)
        self.assertEqual(page["side"], 4)
        self.assertEqual(sorted(t["place"] for t in page["tokens"]), list(range(16)))
        self.assertEqual(page["previews"][-1]["step"], 16)

    def test_bench_lets_drafters_take_turns(self):
        r = forerun(*self.run_on("bench", "--count", "2", "--drafts", "2,auto", "--drafters", "none,self"))
        self.assertEqual(r.returncode, 0, r.stderr)
        for word in ("tau", "again", "self", "auto", "worst"):
            self.assertIn(word, r.stdout)

    def test_what_does_not_fit_is_refused(self):
        generate = lambda *more: self.run_on("generate", *more)
        self.refused(*generate("--drafter", "cspd:" + self.model("of-other")), says=["another target"])
        self.refused(*generate("--drafter", "cspd:" + self.model("coarse")), says=["coarse", "does not draft"])
        self.refused(*generate("--class", "5"), says=["class 5", "0 to 4"])
        self.refused(*generate("--drafter", "asd"), says=["asd", "cspd:FOLDER"])
        self.refused(*generate("--rule", "maximal"), says=["maximal", "stepwise"])
        self.refused(*generate("--drafter", "self", "--rule", "path"), says=["self", "stepwise"])
        self.refused(*generate("--prompt", "x"), says=["--prompt is for language models", "an image-token model"])
        self.refused(*generate("--eta", "1"), says=["--eta is for Diffusion Transformers"])
        self.refused(*generate("--precision", "int8"), says=["f32"])
        self.refused("generate", "-m", DIT, "--rule", "stepwise", "--out", self.path("a.png"), says=["stepwise"])
        self.refused("generate", "-m", GGUF, "-p", "x", "--cfg-schedule", "linear", says=["image-token models"])
        self.refused("chat", "-m", self.model("mar"), says=["image-token model"])
        self.refused("generate", "-m", self.model("mar"), says=["--out"])

    def test_damaged_checkpoints_and_pickles_say_so(self):
        cut = self.path("cut")
        shutil.copytree(self.model("mar"), cut)
        with open(os.path.join(cut, "model.safetensors"), "r+b") as f:
            f.truncate(5000)
        self.refused("generate", "-m", cut, "--out", self.path("a.png"), code=1, says=["model.safetensors"])
        pickled = self.path("pickled")
        shutil.copytree(self.model("mar"), pickled)
        with open(os.path.join(pickled, "model.safetensors"), "wb") as f:
            pickle.dump({"model_ema": [1, 2, 3]}, f)
        self.refused("generate", "-m", pickled, "--out", self.path("a.png"), code=1, says=["model.safetensors"])


if __name__ == "__main__":
    unittest.main(argv=["cli_token_images_test.py"])
