"""forerun train classifier and forerun evaluate as people meet them: exit codes, one clear line for all that is wrong,
images that are kept.

usage: cli_evaluate_test.py FORERUN   (runs on a tiny model of tests/data/dit, needs no download)
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from cli_support import FORERUN, LLAMA, Command, forerun
from pictures import png, write_data

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
DIT = os.path.join(DATA, "dit", "reference_pixel")  # 5 classes of 16 x 16 grey pixels
LATENT = os.path.join(DATA, "dit", "reference")


class Evaluating(Command):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp()
        cls.data = os.path.join(cls.shared, "data")
        cls.classifier = os.path.join(cls.shared, "classifier")
        write_data(cls.data)
        r = forerun(*cls.training(cls.data, cls.classifier))
        assert r.returncode == 0, r.stderr
        cls.report = r

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    @staticmethod
    def training(data, out, *more):
        return ("train", "classifier", "--data", data, "--out", out, "--steps", "10", "--batch", "10", "--micro-batch",
                "10", "--threads", "1", "--width", "8", "--features", "6", *more)

    def evaluate(self, *more, classifier=None, data=None):
        return ("evaluate", "--classifier", classifier or self.classifier, "--data", data or self.data, "--threads",
                "1", "--replicates", "5", *more)

    def sample(self, *more, model=DIT, **kwargs):
        return self.evaluate("-m", model, "--steps", "3", *more, **kwargs)

    def document(self, *args):
        r = forerun(*args, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    # --- what works ---------------------------------------------------------------------------------------------

    def test_training_reports_the_accuracy(self):
        self.assertIn("accuracy", self.report.stderr)
        self.assertIn("done after step 10 of 10", self.report.stdout)

    def test_help_has_examples(self):
        for command in (("evaluate",), ("train", "classifier")):
            r = forerun(*command, "--help")
            self.assertEqual(r.returncode, 0)
            self.assertIn("Examples", r.stdout)

    def test_json_has_the_fixed_fields(self):
        j = self.document(*self.sample("--drafter", "asd", "--against", "none", "-n", "10"))
        self.assertEqual([s["name"] for s in j["sets"]], ["plain", "asd"])
        self.assertEqual((j["images"], j["references"], j["found"], j["sampled"]), (10, 60, 0, 20))
        self.assertEqual(j["differences"][0]["name"], "asd - plain")
        self.assertIs(j["inception_fid"], False)
        for scores in j["sets"] + [j["floor"]]:
            for key in "cfid c_sfid precision recall agreement".split():
                self.assertEqual(set(scores[key]), {"value", "error"})
            self.assertEqual(len(scores["agreement_by_class"]), 5)
            self.assertGreaterEqual(scores["cfid"]["value"], 0.0)

    def test_the_table_says_what_it_is_not(self):
        r = forerun(*self.sample("--drafter", "frozen", "--against", "none", "-n", "10"))
        self.assertEqual(r.returncode, 0, r.stderr)
        for word in ("floor", "plain", "frozen - plain", "NOT Inception FID", "forerun certify", "class3",
                     "standard errors"):
            self.assertIn(word, r.stdout)

    def test_an_inexact_rule_is_called_so(self):
        profile = self.path("relax.json")
        r = forerun("profile", "-m", DIT, "--steps", "3", "--count", "2", "--drafter", "asd", "--out", profile)
        self.assertEqual(r.returncode, 0, r.stderr)
        j = self.document(*self.sample("--drafter", "asd", "--rule", "relax", "--profile", profile, "-n", "5"))
        self.assertEqual(j["sets"][0]["name"], "asd-relax (INEXACT)")

    def test_images_are_kept_used_again_and_added_to(self):
        keep = self.path("keep")
        args = self.sample("--drafter", "asd", "--against", "none", "--keep", keep)
        first = self.document(*args, "-n", "10")
        again = self.document(*args, "-n", "10")
        self.assertEqual((again["found"], again["sampled"]), (20, 0))
        self.assertEqual(again["sets"][0]["cfid"], first["sets"][0]["cfid"])
        self.assertEqual(again["differences"], first["differences"])
        self.assertEqual(sorted(os.listdir(os.path.join(keep, "plain"))),
                         [f"class{i}" for i in range(5)] + ["settings.json"])
        # What is lost is made again as it was; a larger count adds.
        lost = os.path.join(keep, "asd", "class2", "000007.png")
        with open(lost, "rb") as f:
            before = f.read()
        os.remove(lost)
        more = self.document(*args, "-n", "15")
        self.assertEqual((more["found"], more["sampled"]), (19, 11))
        with open(lost, "rb") as f:
            self.assertEqual(f.read(), before)
        # The folder of a set is a set.
        read = self.document(*self.evaluate("--images", os.path.join(keep, "plain"), "--images",
                                            os.path.join(keep, "asd")))
        self.assertAlmostEqual(read["sets"][0]["cfid"]["value"], more["sets"][0]["cfid"]["value"], places=6)
        self.assertEqual(read["images"], 15)
        self.assertEqual([s["name"] for s in read["sets"]], ["plain", "asd"])
        # Plain images serve whatever they are compared with.
        other = self.document(*self.sample("--drafter", "frozen", "--against", "none", "--keep", keep, "-n", "15"))
        self.assertEqual((other["found"], other["sampled"]), (15, 15))
        self.refused(2, *args, "-n", "10", "--seed", "3", says=[keep, "seed", "--keep"])
        self.refused(2, *args, "-n", "10", "--max-draft", "2", says=["draft_length"])

    def test_an_interrupted_run_reports_and_goes_on(self):
        keep = self.path("keep")
        args = self.evaluate("-m", DIT, "--steps", "40", "--batch-size", "2", "--keep", keep, "-n", "400", "--json")
        p = subprocess.Popen([FORERUN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        last = os.path.join(keep, "plain", "class4", "000009.png")
        deadline = time.monotonic() + 60
        while not os.path.exists(last) and time.monotonic() < deadline:
            time.sleep(0.01)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertIn(p.returncode, (0, 130), err)  # 0: the machine was faster than the signal
        j = json.loads(out)
        self.assertEqual(j["interrupted"], p.returncode == 130)
        self.assertGreaterEqual(j["images"], 9)
        if p.returncode == 130:
            self.assertIn("the same command resumes it", err)
        kept = sum(len(files) for _, _, files in os.walk(keep)) - 1
        r = forerun(*args)
        self.assertEqual(r.returncode, 0, r.stderr)
        j = json.loads(r.stdout)
        self.assertEqual((j["found"], j["sampled"], j["images"]), (kept, 400 - kept, 400))

    # --- what is refused ----------------------------------------------------------------------------------------

    def test_misuse_is_exit_code_2(self):
        self.assertEqual(forerun("evaluate").returncode, 2)
        self.refused(2, *self.evaluate(), says=["-m", "--images"])
        self.refused(2, *self.sample("--images", self.data), says=["-m", "--images"])
        for flag, value in (("-n", "3"), ("-n", "0"), ("--replicates", "1"), ("--rule", "magic"), ("--class", "1")):
            self.assertEqual(forerun(*self.sample(flag, value)).returncode, 2, flag)
        self.refused(2, *self.sample("-n", "5", "--drafter", "magic"), says=["magic"])
        self.refused(2, *self.sample("-n", "5", "--against", "magic"), says=["magic"])
        self.refused(2, *self.sample("-n", "5", "--against", "none"), says=["--against none"])
        self.refused(2, *self.sample("-n", "5", "--cfg", "nan"))
        self.refused(2, *self.sample("-n", "5", model=LATENT), says=["latents", "--vae"])

    def test_images_and_models_that_do_not_fit_the_classifier(self):
        few, large = self.path("few"), self.path("large")
        write_data(few, classes=3)
        write_data(large, side=20)
        self.refused(2, *self.sample("-n", "5", data=few), says=[few, "3 classes", "in 5"])
        self.refused(2, *self.sample("-n", "5", data=large), says=[large, "20 x 20"])
        other = self.path("other")
        r = forerun(*self.training(few, other))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.refused(2, *self.sample("-n", "5", data=few, classifier=other), says=[DIT, "5 classes", "in 3"])
        self.refused(2, *self.evaluate("--images", os.path.join(large, "train")), says=["20 x 20", "16 x 16"])
        self.refused(2, *self.evaluate("--images", os.path.join(few, "train"), "--images",
                                       os.path.join(self.data, "test")), says=["36 and 60"])
        os.rename(os.path.join(few, "train", "class1"), os.path.join(few, "train", "shoes"))
        self.refused(2, *self.evaluate("--images", os.path.join(few, "train")), says=["shoes", "class1"])

    def test_failures_are_exit_code_1(self):
        self.refused(1, *self.sample("-n", "5", classifier=self.path("none")), says=["none"])
        self.refused(1, *self.sample("-n", "5", classifier=DIT), says=[DIT, "train classifier"])
        self.refused(1, *self.sample("-n", "5", data=self.path("none")), says=["none"])
        half = self.path("half")
        shutil.copytree(self.classifier, half)
        with open(os.path.join(half, "model.safetensors"), "r+b") as f:
            f.truncate(500)
        self.refused(1, *self.sample("-n", "5", classifier=half), says=[half])
        self.refused(2, *self.sample("-n", "5", model=LLAMA), says=["models that make images", "language model"])
        empty = self.path("empty")
        os.mkdir(empty)
        self.refused(1, *self.evaluate("--images", empty), says=[empty])
        train_only = self.path("train_only")
        write_data(train_only, splits=("train",))
        self.refused(1, *self.sample("-n", "5", data=train_only), says=[train_only, "test"])
        self.refused(1, *self.sample("-n", "5", "--keep", self.path("file", b"precious")), says=["file"])
        keep = self.path("keep")
        self.document(*self.sample("-n", "5", "--keep", keep))
        broken = os.path.join(keep, "plain", "class1", "000001.png")
        with open(broken, "r+b") as f:
            f.truncate(40)
        self.refused(1, *self.sample("-n", "5", "--keep", keep), says=[broken])

    def test_training_misuse_is_exit_code_2(self):
        out = self.path("out")
        for flag, value, word in (("--smoothing", "1", "smoothing"), ("--shift", "-1", "shift"), ("--side", "8", "side"),
                                  ("--side", "-1", "side")):
            self.refused(2, *self.training(self.data, out, flag, value), says=[word])
        self.refused(2, "train", "classifier", "--data", self.data, "--out", out, "--width", "9", says=["multiple of 8"])
        self.refused(1, *self.training(self.path("none"), out), says=["none"])
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    unittest.main(verbosity=1)
