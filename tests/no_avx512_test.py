"""An installed (or built) forerun on older processors: int8 with the same text on one without AVX-512, float32 on one
without AVX2, and neither meets an instruction that it lacks.

usage: no_avx512_test.py FORERUN   needs qemu-x86_64 (Debian package qemu-user)
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "tests/data/tiny/llama/model.gguf"
DIT = ROOT / "tests/data/dit/reference_pixel"
FORERUN = None
AVX2 = ("qemu-x86_64", "-cpu", "Haswell")  # AVX2 and FMA, no AVX-512
NO_AVX2 = ("qemu-x86_64", "-cpu", "SandyBridge")  # AVX


def forerun(processor, *args):
    """The program as `processor` runs it; an illegal instruction ends it with a signal."""
    return subprocess.run([*processor, FORERUN, *map(str, args)], capture_output=True, text=True, timeout=300)


def both(one, other):
    """What two calls give, made at a time: a processor is emulated on one core."""
    with ThreadPoolExecutor(2) as pool:
        return [call.result() for call in (pool.submit(one), pool.submit(other))]


class OlderProcessors(unittest.TestCase):
    def text(self, processor, precision):
        r = forerun(processor, "generate", "-m", MODEL, "-p", "a b", "--raw", "-n", 40, "--precision", precision, "--drafter",
                    "lookup", "--threads", 1, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def image_precision(self, processor):
        with tempfile.TemporaryDirectory() as folder:
            r = forerun(processor, "generate", "-m", DIT, "--count", 1, "--steps", 2, "--threads", 1, "--out",
                        pathlib.Path(folder, "image.png"), "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            return json.loads(r.stdout)["precision"]

    def test_info_says_what_it_runs(self):
        runs = both(lambda: forerun(AVX2, "info", MODEL), lambda: forerun(NO_AVX2, "info", MODEL))
        for r, kernels in zip(runs, ("int8 through AVX2", "no AVX2")):
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn(kernels, r.stdout)

    def test_a_text_in_int8_does_not_depend_on_the_processor(self):
        older = self.text(AVX2, "auto")
        self.assertEqual(older["precision"], "int8")
        self.assertEqual(older["tokens"], self.text((), "int8")["tokens"])

    def test_without_avx2_auto_is_float32_with_the_text_of_float32(self):
        auto, float32 = both(lambda: self.text(NO_AVX2, "auto"), lambda: self.text(NO_AVX2, "f32"))
        self.assertEqual(auto["precision"], "f32")
        self.assertEqual(auto["tokens"], float32["tokens"])

    def test_images_are_sampled_in_bf16_with_avx2_and_in_float32_without(self):
        precisions = both(lambda: self.image_precision(AVX2), lambda: self.image_precision(NO_AVX2))
        self.assertEqual(precisions, ["bf16", "f32"])


if __name__ == "__main__":
    FORERUN = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
