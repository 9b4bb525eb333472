"""An installed (or built) forerun starts on a processor without AVX-512, computes in float32 and says so.

usage: no_avx512_test.py FORERUN   needs qemu-x86_64 (Debian package qemu-user)
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "tests/data/tiny/llama/model.gguf"
FORERUN = None


def forerun(*args):
    """The program as a Haswell (AVX2, no AVX-512) runs it; an illegal instruction ends it with a signal."""
    return subprocess.run(["qemu-x86_64", "-cpu", "Haswell", FORERUN, *map(str, args)], capture_output=True, text=True,
                          timeout=300)


class NoAvx512(unittest.TestCase):
    def test_info_says_what_it_runs(self):
        r = forerun("info", MODEL)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("Haswell", r.stdout)
        self.assertIn("no AVX-512", r.stdout)

    def test_auto_computes_in_float32_with_the_text_of_float32(self):
        texts = {}
        for precision in ("auto", "f32"):
            r = forerun("generate", "-m", MODEL, "-p", "a b", "--raw", "-n", 8, "--precision", precision, "--drafter", "lookup",
                        "--threads", 1, "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            texts[precision] = json.loads(r.stdout)
        self.assertEqual(texts["auto"]["precision"], "f32")
        self.assertEqual(texts["auto"]["tokens"], texts["f32"]["tokens"])

    def test_images_are_sampled_in_float32(self):
        with tempfile.TemporaryDirectory() as folder:
            r = forerun("generate", "-m", ROOT / "tests/data/dit/reference_pixel", "--count", 1, "--steps", 2, "--threads", 1,
                        "--out", pathlib.Path(folder, "image.png"), "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(json.loads(r.stdout)["precision"], "f32")


if __name__ == "__main__":
    FORERUN = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
