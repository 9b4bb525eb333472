"""What tests of the command share. Takes the path of the command from the first argument of the program."""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FORERUN = os.path.abspath(sys.argv.pop(1))
TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tiny")
LLAMA = os.path.join(TINY, "llama_plain")
GGUF = os.path.join(LLAMA, "model.gguf")
CHAT_TEMPLATE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                 "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def forerun(*args, **kwargs):
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([FORERUN, *args], capture_output=True, text=True, errors="replace", timeout=120, **kwargs)


def make_chat_model(folder):
    """A tiny model with a chat template, in a new folder."""
    os.mkdir(folder)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(os.path.join(LLAMA, name), folder)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(CHAT_TEMPLATE)


TAGS = {f"<|{name}|>": 103 + i for i, name in enumerate(("start", "channel", "message", "end", "constrain", "call", "return"))}


def write_harmony(model):
    """Gives the folder of make_chat_model the tokens of TAGS, and a template that writes OpenAI's harmony format."""
    path = os.path.join(model, "tokenizer.json")
    with open(path, encoding="utf-8") as f:
        tokenizer = json.load(f)
    vocabulary = tokenizer["model"]["vocab"]
    for name, token in TAGS.items():
        del vocabulary[next(k for k, v in vocabulary.items() if v == token)]
        vocabulary[name] = token
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": token, "content": name, "special": True})
    with open(path, "w", encoding="utf-8") as f:
        json.dump(tokenizer, f)
    with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write("{# <|channel|>final<|message|> tools reasoning_effort #}" + CHAT_TEMPLATE)


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

    def page_data(self, path):
        """What a page holds, after a check that a browser runs its own script alone and fetches nothing."""
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.assertTrue(text.startswith("<!DOCTYPE html>"))
        self.assertEqual(len(re.findall("<script", text)), 2)
        script = re.search("<script>(.*?)</script>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self.assertIn("default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
                      f"script-src 'sha256-{digest}'", text)
        return json.loads(re.search('<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])

    def refused(self, code, *args, says=()):
        """The command ends with `code` and one line on standard error that holds every word of `says`."""
        r = forerun(*args)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertEqual(len(r.stderr.strip().splitlines()), 1, r.stderr)
        for word in says:
            self.assertIn(word, r.stderr)
        return r
