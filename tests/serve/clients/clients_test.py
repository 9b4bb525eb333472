"""Clients as their makers ship them against the server on SmolLM2: openai (Python, JavaScript), LangChain, lm-eval, guidellm,
aiperf, curl, wrk, slowhttptest.

usage: clients_test.py FORERUN MODEL.gguf FOLDER [TEST ...]   (make test-clients installs the clients into FOLDER)

A client that is not there fails its test, but the JavaScript one is left out where there is no node.
"""

import array
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
MODEL, CLIENTS = map(os.path.abspath, (sys.argv.pop(2), sys.argv.pop(2)))

from serve_support import FORERUN, Server, text_of, user  # noqa: E402

CHAT = "/v1/chat/completions"
QUESTION = [{"role": "system", "content": "You answer briefly."}, {"role": "user", "content": "Name three colours."}]
PROMPTS = ("Name three colours.", "What is 2 + 2?", "Write a haiku about rain.", "Where is Oslo?", "Count to five.",
           "Translate 'bread' into French.", "Who wrote Hamlet?", "Say hello.")
# The question, an ending that is likely, one that is not.
LIKES = (("The sky is", "blue.", "a kind of soup."), ("Paris is the capital of", "France.", "seven long years."),
         ("Two and two make", "four", "umbrellas, 1 × €"))


def call(*args, seconds=300, **kwargs):
    r = subprocess.run(args, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, **kwargs)
    assert r.returncode == 0, f"{args[0]} ended with {r.returncode}:\n{r.stdout[-3000:]}\n{r.stderr[-3000:]}"
    return r.stdout + r.stderr


def python(client):
    return os.path.join(CLIENTS, client, "bin", "python")


def log_likelihood(logits_file, tokens, begin):
    """Of tokens[begin:], from what `forerun logits` wrote."""
    with open(logits_file, "rb") as f:
        head = f.read(10)
        f.seek(10 + int.from_bytes(head[8:10], "little"))
        values = array.array("f", f.read())
    width = len(values) // len(tokens)
    total = 0.0
    for i in range(begin, len(tokens)):
        row = values[(i - 1) * width:i * width]
        most = max(row)
        total += row[tokens[i]] - most - math.log(math.fsum(math.exp(x - most) for x in row))
    return total


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.server = Server(cls.folder, "--timeout", "5", model=MODEL, precision="auto")
        cls.url = f"http://{cls.server.host}:{cls.server.port}"
        cls.name = json.loads(cls.server.get("/v1/models")[2])["data"][0]["id"]
        status, answer = cls.server.post(CHAT, {"messages": QUESTION, "seed": 3, "temperature": 0.8, "max_tokens": 24,
                                                "speculative": {"off": True}})
        assert status == 200, answer
        cls.expected = answer["choices"][0]["message"]["content"]

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        shutil.rmtree(cls.folder)
        assert code == 0, f"the server ended with {code}"

    def setUp(self):
        self.began = time.monotonic()

    def tearDown(self):
        self.assertEqual(self.server.get("/health")[0], 200)
        self.assertEqual([r for r in self.server.lines() if r.get("status") == 500], [])
        print(f"{self._testMethodName[5:]}: {time.monotonic() - self.began:.1f} s", file=sys.stderr, flush=True)

    def test_curl(self):
        body = json.dumps({"messages": QUESTION, "seed": 3, "temperature": 0.8, "max_tokens": 24})
        whole = json.loads(call("curl", "-sS", "-d", body, self.url + CHAT))
        self.assertEqual(whole["choices"][0]["message"]["content"], self.expected)
        lines = call("curl", "-sSN", "-d", body[:-1] + ', "stream": true}', self.url + CHAT).splitlines()
        events = [line[6:] for line in lines if line.startswith("data: ")]
        self.assertEqual(events.pop(), "[DONE]")
        self.assertEqual(text_of([json.loads(e) for e in events]), self.expected)

    def test_openai_python(self):
        call(python("openai"), os.path.join(HERE, "..", "openai_test.py"), FORERUN)

    def test_langchain_openai(self):
        call(python("openai"), os.path.join(HERE, "langchain_client.py"), self.url, self.name, self.expected)

    @unittest.skipIf(shutil.which("node") is None or shutil.which("npm") is None, "there is no node")
    def test_openai_javascript(self):
        folder = os.path.join(CLIENTS, "node")  # where the package is found
        shutil.copy(os.path.join(HERE, "openai_client.mjs"), folder)
        call("node", os.path.join(folder, "openai_client.mjs"), self.url, self.name, self.expected)

    def test_lm_eval_log_likelihoods_are_those_of_forerun_logits(self):
        work = os.path.join(self.folder, "lm-eval")
        os.mkdir(work)
        with open(os.path.join(work, "likes.jsonl"), "w") as f:
            f.writelines(json.dumps({"question": q, "good": a, "bad": b}) + "\n" for q, a, b in LIKES)
        with open(os.path.join(work, "likes.yaml"), "w") as f:
            f.write('task: likes\ndataset_path: json\ndataset_kwargs: {data_files: likes.jsonl}\ntest_split: train\n'
                    'output_type: multiple_choice\ndoc_to_text: "{{question}}"\ndoc_to_target: 0\n'
                    'doc_to_choice: ["{{good}}", "{{bad}}"]\ntarget_delimiter: " "\nmetric_list: [{metric: acc}]\n')
        server = Server(self.folder, model=MODEL)
        try:
            said = call(python("lm-eval"), "-m", "lm_eval", "run", "--model", "local-completions", "--model_args",
                        f"model={self.name},base_url=http://{server.host}:{server.port}/v1/completions,num_concurrent=2",
                        "--tasks", "likes", "--include_path", work, "--output_path", "out", "--log_samples", cwd=work)
            self.assertIn("Using tokenizer remote", said)
            samples = [os.path.join(d, name) for d, _, names in os.walk(work) for name in names if name.startswith("samples_")]
            with open(samples[0]) as f:
                rows = [json.loads(line) for line in f]
            self.assertEqual(len(rows), len(LIKES))
            worst = 0.0
            for row in rows:
                for i, response in enumerate(row["filtered_resps"]):
                    context, ending = (row["arguments"][f"gen_args_{i}"][f"arg_{k}"] for k in (0, 1))
                    out = os.path.join(work, "logits.npy")
                    call(FORERUN, "logits", "-m", MODEL, "--precision", "f32", "--raw", "-p", context + ending, "--out", out)
                    tokens = server.post("/tokenize", {"content": context + ending})[1]["tokens"]
                    begin = len(server.post("/tokenize", {"content": context})[1]["tokens"])
                    expected = log_likelihood(out, tokens, begin)
                    worst = max(worst, abs(float(response[0]) - expected))
                    # Another token's likelihood would be far off: the bound tells them apart.
                    self.assertGreater(abs(log_likelihood(out, tokens, begin - 1) - expected), 1e-3)
            print(f"lm-eval: {2 * len(rows)} endings, largest difference {worst:.1e}", file=sys.stderr)
            self.assertLess(worst, 1e-5)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_guidellm(self):
        work = os.path.join(self.folder, "guidellm")
        os.mkdir(work)
        with open(os.path.join(work, "prompts.jsonl"), "w") as f:
            f.writelines(json.dumps({"prompt": p}) + "\n" for p in PROMPTS)
        call(python("guidellm"), "-m", "guidellm", "run", "--backend",
             f"kind=openai_http,target={self.url},model={self.name},max_tokens=16", "--data",
             "kind=json_file,path=prompts.jsonl", "--profile", "kind=concurrent,streams=4", "--constraint",
             "kind=max_requests,count=8", "--output", "kind=json,path=out.json", "--disable-console", cwd=work)
        with open(os.path.join(work, "out.json")) as f:
            metrics = json.load(f)["benchmarks"][0]["metrics"]
        totals = metrics["request_totals"]
        self.assertEqual((totals["successful"], totals["errored"]), (8, 0), totals)

    def test_aiperf(self):
        work = os.path.join(self.folder, "aiperf")
        os.mkdir(work)
        call(python("aiperf"), os.path.join(HERE, "gguf_tokenizer.py"), MODEL, os.path.join(work, "tokenizer"))
        with open(os.path.join(work, "prompts.jsonl"), "w") as f:
            f.writelines(json.dumps({"text": p}) + "\n" for p in PROMPTS)
        call(os.path.join(CLIENTS, "aiperf", "bin", "aiperf"), "profile", "-m", self.name, "--url", self.url, "--endpoint-type",
             "chat", "--streaming", "--tokenizer", os.path.join(work, "tokenizer"), "--use-server-token-count", "--input-file",
             "prompts.jsonl", "--custom-dataset-type", "single_turn", "--request-count", "8", "--concurrency", "4",
             "--extra-inputs", "max_tokens:16", "--ui", "none", "--output-artifact-dir", "out", cwd=work)
        with open(os.path.join(work, "out", "profile_export_aiperf.json")) as f:
            report = json.load(f)
        self.assertEqual(report["request_count"]["avg"], 8)
        self.assertFalse(report.get("error_summary"), report.get("error_summary"))

    def test_wrk(self):
        script = os.path.join(self.folder, "post.lua")
        with open(script, "w") as f:
            f.write('wrk.method = "POST"\nwrk.body = \'{"content": "The sky is blue."}\'\n')
        for path, more in (("/health", ()), ("/tokenize", ("-s", script))):
            said = call("wrk", "-t", "1", "-c", "64", "-d", "3", *more, self.url + path)
            self.assertNotIn("Non-2xx", said)
            self.assertNotIn("Socket errors", said)
            self.assertGreater(float(re.search(r"Requests/sec: +([\d.]+)", said)[1]), 50)

    def test_slowhttptest(self):
        # Slow heads, slow bodies, slow readers; others are answered meanwhile.
        for mode, path in ((("-H",), "/health"), (("-B", "-s", "4096"), CHAT), (("-X", "-w", "8", "-y", "16", "-k", "3"), "/page.js")):
            done, slowest = threading.Event(), [0.0]

            def others():
                while not done.is_set():
                    began = time.monotonic()
                    status, answer = self.server.post(CHAT, {"messages": user("Hi"), "max_tokens": 2})
                    assert status == 200, answer
                    slowest[0] = max(slowest[0], time.monotonic() - began)

            other = threading.Thread(target=others)
            other.start()
            try:
                said = call("slowhttptest", *mode, "-c", "400", "-r", "200", "-i", "2", "-l", "8", "-p", "10", "-u", self.url + path)
            finally:
                done.set()
                other.join()
            said = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", said)
            self.assertRegex(said, r"service available: +YES")
            self.assertNotRegex(said, r"service available: +NO")
            self.assertLess(slowest[0], 10)
            self.assertGreater(slowest[0], 0, "nobody else was served")


if __name__ == "__main__":
    unittest.main()
