"""What tests of the server share: a server of a tiny model, and a client made of the standard library."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from cli_support import CHAT_TEMPLATE, FORERUN, LLAMA, TAGS, make_chat_model, write_harmony  # noqa: E402

OPEN, CLOSE = 103, 104  # the tokens <think> and </think> of make_reasoning_model
WORDS = "a b a b c a b a b c 1 2 1 2 3 1 2 1 2 3"


def make_long_chat_model(folder):
    """In `folder`, for a Server: the tiny model with a longer context, as the words about tools take 700 tokens."""
    model = os.path.join(folder, "chat")
    make_chat_model(model)
    path = os.path.join(model, "config.json")
    with open(path) as f:
        config = {**json.load(f), "max_position_embeddings": 2048}
    with open(path, "w") as f:
        json.dump(config, f)


def make_reasoning_model(folder, start="", special=False):
    """In `folder`, for a Server: a tiny model with tokens for the tags, whose template begins answers with `start`.

    The variable `start` of the template goes first."""
    make_long_chat_model(folder)
    model = os.path.join(folder, "chat")
    path = os.path.join(model, "tokenizer.json")
    with open(path, encoding="utf-8") as f:
        tokenizer = json.load(f)
    vocabulary = tokenizer["model"]["vocab"]
    for name, token in (("<think>", OPEN), ("</think>", CLOSE), ("\u00c3", 105), ("\u00a9", 106)):  # the bytes of an accented e
        del vocabulary[next(k for k, v in vocabulary.items() if v == token)]
        vocabulary[name] = token
        if token in (OPEN, CLOSE):
            tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": token, "content": name, "special": special})
    with open(path, "w", encoding="utf-8") as f:
        json.dump(tokenizer, f)
    with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write("{# <think> </think> #}" + CHAT_TEMPLATE.replace("{% endif %}", "{{ start | default(" + repr(start) + ") }}{% endif %}"))


def make_harmony_model(folder):
    """In `folder`, for a Server: the same with OpenAI's harmony format."""
    make_long_chat_model(folder)
    write_harmony(os.path.join(folder, "chat"))


class Server:
    """`forerun serve` on a free port, of a tiny model where none is named."""

    def __init__(self, folder, *flags, port=0, model=None, precision="f32"):
        self.folder = folder
        self.model, self.precision = model or os.path.join(folder, "chat"), precision
        if model is None and not os.path.isdir(self.model):
            make_chat_model(self.model)
        self.log_path = os.path.join(folder, f"log-{time.monotonic_ns()}")
        self.log = open(self.log_path, "w+")
        self.process = subprocess.Popen(
            [FORERUN, "serve", "-m", self.model, "--precision", precision, "--threads", "1", "--port", str(port), *flags],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        match = re.match(r"http://([0-9.]+):(\d+)  ", line)
        if not match:
            self.process.wait(60)
            self.process.stdout.close()
            self.log.close()
            with open(self.log_path) as f:
                raise RuntimeError(f.read())
        self.host, self.port = match[1], int(match[2])

    def lines(self):
        with open(self.log_path) as f:
            return [json.loads(line) for line in f if line.startswith("{")]

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def socket(self, timeout=30):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers, body)"""
        c = self.connect(timeout)
        try:
            data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
            c.request(method, path, data, headers or {})
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        status, _, data = self.request("POST", path, body, **kwargs)
        return status, json.loads(data)

    def stream(self, path, body, **kwargs):
        """The events of a stream, "[DONE]" included; comments are left out."""
        c = self.connect()
        try:
            c.request("POST", path, json.dumps({**body, "stream": True}), kwargs.get("headers", {}))
            r = c.getresponse()
            assert r.status == 200, (r.status, r.read())
            assert r.headers["Content-Type"] == "text/event-stream"
            return [e if e == "[DONE]" else json.loads(e) for e in events(r)]
        finally:
            c.close()

    def metrics(self):
        """{name{labels}: value}"""
        text = self.get("/metrics")[2].decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.splitlines() if line and not line.startswith("#")}

    def wait_until(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.05)

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(60)
        self.process.stdout.close()
        self.log.close()
        return code

    def alone(self, prompt, seed, tokens, *flags, chat=True):
        """The text that the command gives for one prompt."""
        raw = [] if chat else ["--raw"]
        r = subprocess.run(
            [FORERUN, "generate", "-m", self.model, "--precision", self.precision, "--threads", "1", "--rule",
             "shared-noise", "-p", prompt, "--seed", str(seed), "-n", str(tokens), "--json", *raw, *flags], capture_output=True, text=True,
            check=True, timeout=120)
        return json.loads(r.stdout)["text"]


def events(response):
    """The data of server-sent events."""
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("data: "):
            yield line[len("data: "):]


def user(text):
    return [{"role": "user", "content": text}]


def text_of(stream, choice=0):
    """What the chunks of a stream say, put together."""
    out = ""
    for chunk in stream:
        for c in chunk["choices"] if chunk != "[DONE]" else []:
            if c["index"] == choice:
                out += c["delta"].get("content", "") if "delta" in c else c["text"]
    return out


class Served(unittest.TestCase):
    """Tests that share a server, with `flags` and, in its folder, what `make_model(folder)` makes."""

    flags = ()
    make_model = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        if cls.make_model is not None:
            cls.make_model(cls.folder)
        cls.server = Server(cls.folder, *cls.flags)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        shutil.rmtree(cls.folder)
        assert code == 0, f"the server ended with {code}"

    def refused(self, status, path, body, param=None, says=(), **kwargs):
        got, answer = self.server.post(path, body, **kwargs)
        self.assertEqual(got, status, answer)
        error = answer["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        if param is not None:
            self.assertEqual(error["param"], param)
        for word in says:
            self.assertIn(word, error["message"])
        return error


def in_threads(count, work):
    """work(i) in `count` threads at once; the first exception is raised here."""
    errors = []

    def run(i):
        try:
            work(i)
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
