"""What tests of the command share. Takes the path of the command from the first argument of the program."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

FORERUN = sys.argv.pop(1)
TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tiny")
LLAMA = os.path.join(TINY, "llama_plain")
GGUF = os.path.join(LLAMA, "model.gguf")


def forerun(*args, **kwargs):
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([FORERUN, *args], capture_output=True, text=True, errors="replace", timeout=120, **kwargs)


class Command(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name, data=None):
        path = os.path.join(self.dir, name)
        if data is not None:
            with open(path, "wb") as f:
                f.write(data)
        return path

    def refused(self, code, *args, says=()):
        """The command ends with `code` and one line on standard error that holds every word of `says`."""
        r = forerun(*args)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertEqual(len(r.stderr.strip().splitlines()), 1, r.stderr)
        for word in says:
            self.assertIn(word, r.stderr)
        return r
