"""The verbs on diffusion models as people meet them: exit codes, one clear line for all that is wrong.

usage: cli_images_test.py FORERUN   (runs on a tiny model of tests/data/dit, needs no download)
"""

import gzip
import json
import os
import shutil
import struct
import tempfile
import unittest

from cli_support import Command, forerun
from pictures import write_data

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
DIT = os.path.join(DATA, "dit", "reference_pixel")  # 5 classes of 16 x 16 grey pixels
LATENT = os.path.join(DATA, "dit", "reference")


def idx(shape, values):
    return struct.pack(">BBBB", 0, 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + bytes(values)


class Images(Command):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp()
        cls.data = os.path.join(cls.shared, "data")
        cls.free = os.path.join(cls.shared, "free")
        write_data(cls.data)
        cls.training = forerun(*cls.free_training(cls.data, cls.free))
        assert cls.training.returncode == 0, cls.training.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    @staticmethod
    def free_training(data, out, *more):
        return ("train", "free", "-t", DIT, "--data", data, "--out", out, "--steps", "3", "--batch", "10",
                "--micro-batch", "10", "--threads", "1", *more)

    @property
    def precision(self):
        return self.document(*self.generate("--count", "1"))["precision"]

    def generate(self, *more, model=DIT, steps=12, threads=1, out=None):
        return ("generate", "-m", model, "--steps", str(steps), "--threads", str(threads), "--out",
                out or self.path("grid.png"), *more)

    def document(self, *args):
        r = forerun(*args, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def picture(self, *more, **kwargs):
        r = forerun(*self.generate(*more, **kwargs))
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(self.path("grid.png"), "rb") as f:
            return f.read()

    # --- what works ---------------------------------------------------------------------------------------------

    def test_training_reports_what_a_draft_is_kept_with(self):
        self.assertIn("kept", self.training.stderr)
        with open(os.path.join(self.free, "config.json")) as f:
            self.assertEqual(json.load(f)["architecture"], "free")

    def test_a_seed_makes_the_same_images_again(self):
        drafted = ("--drafter", f"free:{self.free}", "--max-draft", "3", "--fixed-draft", "--seed", "3")
        self.assertEqual(self.picture(*drafted), self.picture(*drafted, "--batch-size", "1"))
        plain = self.picture("--seed", "3")
        self.assertEqual(plain, self.picture("--seed", "3", "--batch-size", "2", threads=2))
        self.assertEqual(plain, self.picture("--seed", "3", "--drafter", "self", "--max-draft", "63"))
        self.assertNotEqual(plain, self.picture("--seed", "4"))

    def test_json_tells_what_was_done(self):
        j = self.document(*self.generate("--class", "1,4", "--count", "3", "--drafter", "self", "--max-draft", "3",
                                         "--fixed-draft"))
        self.assertEqual((j["images"], j["transitions"], j["max_draft"], j["fixed_draft"]), (3, 36, 3, True))
        self.assertIs(j["exact"], True)
        self.assertEqual(j["efficiency"], 3.0)  # a first round without drafts, then three of four, and 11 are left
        j = self.document(*self.generate())
        self.assertEqual((j["max_draft"], j["fixed_draft"]), (63, False))

    def test_every_length_number_of_steps_and_form_works(self):
        for steps in (1, 10):
            for drafts in (("0", "--fixed-draft"), ("1", "--fixed-draft"), ("31", "--fixed-draft"), ("8",)):
                j = self.document(*self.generate("--count", "2", "--drafter", "asd", "--max-draft", *drafts, steps=steps))
                self.assertEqual(j["transitions"], 2 * steps)
        j = self.document(*self.generate("--count", "1", "--cfg", "1", "--two-calls", "-d", "frozen", "--max-draft", "2",
                                         "--fixed-draft"))
        self.assertEqual(j["transitions"], 12)

    def test_a_trace_is_one_page(self):
        page = self.path("trace.html")
        self.picture("--drafter", "asd", "--count", "1", "--trace", page)
        data = self.page_data(page)
        self.assertEqual(len(data["cells"]), data["steps"])
        self.assertEqual(set(data["cells"]) - set("krt"), set())
        self.assertEqual(data["rounds"][0][0], 0)

    def test_bench_compares_with_plain_sampling(self):
        args = ("bench", "-m", DIT, "--steps", "12", "--count", "2", "--threads", "1", "--drafts", "1,auto")
        j = self.document(*args, "--drafters", f"asd,free:{self.free}")
        self.assertEqual([r["drafter"] for r in j["results"]], ["none"] + ["asd"] * 2 + [f"free:{self.free}"] * 2)
        self.assertEqual([(r["max_draft"], r["fixed_draft"]) for r in j["results"]],
                         [(0, True)] + [(1, True), (63, False)] * 2)
        self.assertGreater(j["results"][3]["draft_cost"], 0.0)
        self.assertEqual((j["precision"], len(j["results"][1]["accepted_by_step"])), (self.precision, 12))
        self.assertIsNone(j["results"][0]["acceptance_by_time"][0])  # nothing was drafted
        self.assertIn("by tenth of sampling", forerun(*args, "--drafters", "asd").stdout)
        latent = ("bench", "-m", LATENT, "--steps", "3", "--count", "1", "--drafts", "1", "--drafters", "asd")
        self.assertEqual(len(self.document(*latent)["results"]), 2)  # needs no decoder
        self.assertIsNone(self.document(*latent, "--two-calls")["results"][1]["draft_cost"])
        self.assertIn("speed", j["results"][1])
        self.assertNotIn("speed", self.document(*args, "--drafters", "asd", "--no-plain")["results"][0])

    def test_the_certificate_passes_and_relax_needs_its_profile(self):
        self.assertTrue(self.document("certify", "-m", DIT, "--steps", "60", "--count", "4", "-d", "asd")["passed"])
        profile = self.path("relax.json")
        common = ("-m", DIT, "--steps", "12", "--count", "2", "-d", f"free:{self.free}")
        self.assertEqual(forerun("profile", *common, "-o", profile).returncode, 0)
        j = self.document(*self.generate("-d", f"free:{self.free}", "--rule", "relax", "--profile", profile))
        self.assertFalse(j["exact"])
        self.refused(2, *self.generate("-d", "asd", "--rule", "relax"), says=["--profile"])
        relax = ("-d", f"free:{self.free}", "--rule", "relax", "--profile")
        self.refused(2, *self.generate(*relax, profile, "--cfg", "3"), says=["guidance", "3"])
        self.refused(2, *self.generate(*relax, profile, "--eta", "0.5"), says=["eta"])
        self.refused(2, *self.generate(*relax, profile, "--two-calls", "--fixed-draft"), says=["two calls"])
        self.refused(2, *self.generate("-d", "asd", *relax[2:], profile), says=["drafter", "free", "asd"])
        self.refused(2, *self.generate(*relax, self.path("old", b'{"format": "forerun relax profile 1"}')),
                     says=["another version"])
        self.refused(2, *self.generate("-d", "asd", "--rule", "relax", "--profile", self.path("no", b"{}")),
                     says=["no profile"])

    def test_a_pipeline_brings_its_decoder(self):
        pipeline = self.path("pipeline")
        shutil.copytree(os.path.join(DATA, "dit", "diffusers"), pipeline)
        self.refused(2, *self.generate("--dialect", "diffusers", model=pipeline), says=["--vae"])
        shutil.copytree(os.path.join(DATA, "vae", "four_levels"), os.path.join(pipeline, "vae"))
        self.assertTrue(self.picture("--dialect", "diffusers", "--count", "1", model=pipeline).startswith(b"\x89PNG"))

    def test_what_drafts_nothing_does_not_pass(self):
        r = forerun("certify", "-m", DIT, "--steps", "5", "--count", "1", "-d", "none")
        self.assertEqual(r.returncode, 1)
        self.assertIn("NOTHING DRAFTED", r.stdout)

    def test_help_teaches(self):
        for verb in ("generate", "bench", "certify", "profile"):
            r = forerun(verb, "--help")
            self.assertEqual(r.returncode, 0)
            self.assertIn("--max-draft", r.stdout)
            self.assertIn("--cfg", r.stdout)

    # --- what is wrong ------------------------------------------------------------------------------------------

    def test_misuse_is_one_line(self):
        self.refused(2, *self.generate("--class", "5"), says=["class 5", "0 to 4"])
        self.refused(2, *self.generate("--class", "-1"), says=["class -1"])
        self.refused(2, *self.generate("--drafter", "lookup"), says=["lookup", "asd"])
        self.refused(2, *self.generate("--drafter", "asd", "--two-calls"), says=["fixed"])
        self.refused(2, *self.generate(model=LATENT), says=["--vae"])
        self.refused(2, "profile", "-m", self.data, "-d", "asd", "-o", self.path("p"), says=["no diffusion model"])
        self.assertEqual(forerun(*self.generate("-L", "many")).returncode, 2)
        self.assertEqual(forerun(*self.generate(steps=1001)).returncode, 2)

    def test_models_that_cannot_be_read_are_one_line(self):
        self.refused(1, *self.generate("--drafter", "free:nowhere"), says=["nowhere"])
        self.refused(2, *self.generate("--cfg", "2", model="nowhere"), says=["nowhere: no such file or folder"])
        damaged = self.path("damaged")
        shutil.copytree(DIT, damaged)
        with open(os.path.join(damaged, "config.json"), "w") as f:
            f.write("{")
        self.refused(1, *self.generate("--class", "0", model=damaged), says=["damaged", "config.json"])
        bench = ("bench", "-m", DIT, "--steps", "12", "--count", "2", "--drafters")
        self.refused(2, *bench, "asd,lookup", says=["lookup"])
        self.assertEqual(forerun(*bench, "asd", "--drafts", "2000").returncode, 2)
        self.refused(1, *self.generate("--drafter", f"free:{DIT}"), says=["FREE"])
        other = self.path("other")
        r = forerun("train", "dit", "--data", self.data, "--out", other, "--steps", "1", "--depth", "1", "--hidden", "16",
                    "--heads", "2", "--batch", "2", "--micro-batch", "2", "--threads", "1")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.refused(1, *self.generate("--drafter", f"free:{self.free}", model=other), says=["target"])
        half = self.path("half")
        shutil.copytree(self.free, half)
        weights = os.path.join(half, "model.safetensors")
        with open(weights, "r+b") as f:
            f.truncate(os.path.getsize(weights) // 2)
        self.refused(1, *self.generate("--drafter", f"free:{half}"), says=["half"])

    def test_a_full_disk_leaves_nothing_and_says_so(self):
        self.refused(1, *self.generate(out="/dev/full"), says=["/dev/full"])

    def test_data_that_cannot_be_read_is_one_line(self):
        out = self.path("out")
        self.refused(1, *self.free_training(self.path("nothing"), out), says=["nothing"])
        empty = self.path("empty")
        os.makedirs(os.path.join(empty, "train", "a"))
        self.refused(1, *self.free_training(empty, out), says=["empty"])
        cut = self.path("cut")
        shutil.copytree(self.data, cut)
        picture = os.path.join(cut, "train", "class0", "3.png")
        with open(picture, "r+b") as f:
            f.truncate(30)
        self.refused(1, *self.free_training(cut, out), says=["3.png"])
        numbers = self.path("numbers")
        os.makedirs(numbers)
        for name, data in (("train-images-idx3-ubyte", idx((4, 16, 16), range(256)) + bytes(10)),
                           ("train-labels-idx1-ubyte", idx((4,), (0, 1, 2, 3)))):
            with gzip.open(os.path.join(numbers, name + ".gz"), "wb") as f:
                f.write(data)
        self.refused(1, *self.free_training(numbers, out), says=["train-images"])
        few = self.path("few")
        write_data(few, classes=3)
        self.refused(2, *self.free_training(few, out), says=["classes"])
        self.assertFalse(os.path.exists(os.path.join(out, "model.safetensors")))


if __name__ == "__main__":
    unittest.main()
