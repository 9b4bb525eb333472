"""The server as its clients meet it: texts, streams, log-probabilities, errors, metrics, certificates.

usage: serve_test.py FORERUN   (runs on a tiny model, needs no download and no package)
"""

import json
import math
import os
import re
import struct
import subprocess
import tempfile
import unittest

from serve_support import FORERUN, LLAMA, WORDS, Served, Server, make_chat_model, text_of, user

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class Texts(Served):
    flags = ("--fixed-draft", "--max-draft", "4")

    def test_a_text_is_the_one_that_the_command_gives_alone(self):
        for seed, flags, fields in (
                (1, ["--temp", "1"], {}),
                (2, ["--temp", "0.7", "--top-k", "20"], {"temperature": 0.7, "top_k": 20}),
                (3, ["--temp", "1.3", "--top-p", "0.8"], {"temperature": 1.3, "top_p": 0.8}),
                (4, ["--temp", "1", "--min-p", "0.05"], {"min_p": 0.05}),
                (5, ["--temp", "0"], {"temperature": 0}),
                (6, ["--temp", "1", "--presence-penalty", "1", "--frequency-penalty", "0.5", "--repetition-penalty", "1.2"],
                 {"presence_penalty": 1, "frequency_penalty": 0.5, "repetition_penalty": 1.2}),
                (7, ["--temp", "0", "--logit-bias", "20=3", "--logit-bias", "21=-100"],
                 {"temperature": 0, "logit_bias": {"20": 3, "21": -100}})):
            prompt = f"{WORDS} {seed}"
            expected = self.server.alone(prompt, seed, 40, "--ignore-end", *flags)
            body = {"messages": user(prompt), "seed": seed, "max_tokens": 40, "ignore_eos": True, **fields}
            status, whole = self.server.post(CHAT, body)
            self.assertEqual(status, 200, whole)
            self.assertEqual(whole["choices"][0]["message"]["content"], expected)
            self.assertEqual(text_of(self.server.stream(CHAT, body)), expected)
            raw = {"prompt": prompt, "seed": seed, "max_tokens": 40, "ignore_eos": True, **fields}
            expected = self.server.alone(prompt, seed, 40, "--ignore-end", *flags, chat=False)
            for speculative in ({}, {"off": True}, {"drafter": "none"}, {"drafter": "lookup"}):
                _, answer = self.server.post(COMPLETIONS, {**raw, "speculative": speculative})
                self.assertEqual(answer["choices"][0]["text"], expected)

    def test_another_seed_is_another_text_and_none_differs_every_time(self):
        texts = [self.server.post(COMPLETIONS, {"prompt": "a b", "max_tokens": 30, "ignore_eos": True, **seed})[1]
                 for seed in ({"seed": 1}, {"seed": 2}, {"seed": -1}, {}, {})]
        self.assertEqual(len({t["choices"][0]["text"] for t in texts}), 5)
        again = {"prompt": "a b", "max_tokens": 30, "ignore_eos": True, "seed": texts[3]["forerun"]["seed"]}
        self.assertEqual(self.server.post(COMPLETIONS, again)[1]["choices"][0]["text"], texts[3]["choices"][0]["text"])
        self.assertEqual(texts[2]["forerun"]["seed"], 2**64 - 1)
        again["seed"] = 2**64 - 1
        self.assertEqual(self.server.post(COMPLETIONS, again)[1]["choices"][0]["text"], texts[2]["choices"][0]["text"])

    def test_lists_of_prompts_and_several_texts_of_each(self):
        body = {"seed": 7, "max_tokens": 12, "ignore_eos": True}
        one = [self.server.post(COMPLETIONS, {**body, "prompt": p})[1]["choices"][0]["text"] for p in ("a b", "1 2")]
        tokens = [self.server.post("/tokenize", {"content": p, "add_special": True})[1]["tokens"] for p in ("a b", "1 2")]
        for prompts in (["a b", "1 2"], tokens):
            _, many = self.server.post(COMPLETIONS, {**body, "prompt": prompts, "n": 3})
            self.assertEqual([c["index"] for c in many["choices"]], list(range(6)))
            texts = [c["text"] for c in many["choices"]]
            self.assertEqual(texts[0], one[0])
            self.assertEqual(len(set(texts)), 6)
            streamed = self.server.stream(COMPLETIONS, {**body, "prompt": prompts, "n": 3})
            self.assertEqual([text_of(streamed, i) for i in range(6)], texts)
            self.assertEqual(many["usage"]["prompt_tokens"], sum(len(t) for t in tokens))
            self.assertEqual(many["usage"]["completion_tokens"], 72)
        _, single = self.server.post(COMPLETIONS, {**body, "prompt": tokens[1]})
        self.assertEqual(single["choices"][0]["text"], one[1])

    def test_the_answer_counts_its_tokens_and_drafts(self):
        body = {"messages": user(WORDS), "seed": 1, "temperature": 0, "max_completion_tokens": 60, "max_tokens": 3,
                "ignore_eos": True}
        _, a = self.server.post(CHAT, body)
        self.assertEqual(a["usage"]["completion_tokens"], 60)
        self.assertEqual(a["usage"]["total_tokens"], 60 + a["usage"]["prompt_tokens"])
        t = a["timings"]
        self.assertEqual(t["predicted_n"], 60)
        self.assertGreater(t["draft_n"], 0)
        self.assertGreaterEqual(t["draft_n"], t["draft_n_accepted"])
        s = a["metrics"]["speculative_decoding"]
        histogram = {int(k): n for k, n in s["acceptance_histogram"].items()}
        self.assertEqual(sum(k * n for k, n in histogram.items()), t["draft_n_accepted"])
        self.assertEqual(s["num_accepted_draft_tokens"], t["draft_n_accepted"])
        self.assertEqual(s["num_draft_tokens"], t["draft_n"])
        self.assertAlmostEqual(s["mean_acceptance_length"], 1 + t["draft_n_accepted"] / s["num_spec_steps"])
        _, off = self.server.post(CHAT, {**body, "speculative": {"off": True}})
        self.assertEqual(off["timings"]["draft_n"], 0)
        self.assertIsNone(off["metrics"]["speculative_decoding"])
        self.assertEqual(off["choices"], a["choices"])

    def test_text_ends_at_its_limit_at_the_context_and_at_the_end_token(self):
        _, a = self.server.post(COMPLETIONS, {"prompt": "a b", "seed": 1, "ignore_eos": True})
        self.assertEqual((a["usage"]["completion_tokens"], a["choices"][0]["finish_reason"]), (16, "length"))
        _, a = self.server.post(COMPLETIONS, {"prompt": "a b", "seed": 1, "ignore_eos": True, "max_tokens": 100000})
        context = json.loads(self.server.get("/v1/models")[2])["data"][0]["max_model_len"]
        self.assertEqual(a["usage"]["total_tokens"], context)
        ends = [self.server.post(CHAT, {"messages": user("a b"), "seed": s})[1] for s in range(12)]
        reasons = [a["choices"][0]["finish_reason"] for a in ends]
        self.assertIn("stop", reasons)
        for a in ends:
            if a["choices"][0]["finish_reason"] == "length":
                self.assertEqual(a["usage"]["total_tokens"], context)


class Streams(Served):
    flags = ("--fixed-draft", "--max-draft", "4")

    def test_a_stream_has_the_role_first_and_ends_with_done(self):
        body = {"messages": user("a b"), "seed": 3, "max_tokens": 9, "ignore_eos": True}
        chunks = self.server.stream(CHAT, body)
        self.assertEqual(chunks[-1], "[DONE]")
        first, last = chunks[0]["choices"][0], chunks[-2]["choices"][0]
        self.assertEqual(first["delta"], {"role": "assistant", "content": ""})
        self.assertEqual((last["delta"], last["finish_reason"]), ({}, "length"))
        self.assertEqual({c["object"] for c in chunks[:-1]}, {"chat.completion.chunk"})
        self.assertEqual(len({c["id"] for c in chunks[:-1]}), 1)
        self.assertEqual([c["choices"][0]["finish_reason"] for c in chunks[:-2]], [None] * (len(chunks) - 2))
        self.assertIn("timings", chunks[-2])
        self.assertNotIn("usage", chunks[0])

    def test_the_usage_chunk_comes_on_request(self):
        body = {"messages": user("a b"), "seed": 3, "max_tokens": 9, "ignore_eos": True,
                "stream_options": {"include_usage": True}}
        chunks = self.server.stream(CHAT, body)
        self.assertEqual(chunks[-2]["choices"], [])
        self.assertEqual(chunks[-2]["usage"]["completion_tokens"], 9)
        self.assertTrue(all(c["usage"] is None for c in chunks[:-2]))

    def test_every_chunk_may_have_the_usage_so_far(self):
        options = {"include_usage": True, "continuous_usage_stats": True}
        for path, body in ((CHAT, {"messages": user("a b"), "n": 2}), (COMPLETIONS, {"prompt": "a b", "echo": True}),
                           (CHAT, {"messages": user("a b"), "speculative": {"off": True}})):
            chunks = self.server.stream(path, {**body, "seed": 3, "max_tokens": 9, "ignore_eos": True, "stream_options": options})
            usages = [c["usage"] for c in chunks[:-1]]
            made = [u["completion_tokens"] for u in usages]
            self.assertEqual((made, made[0], made[-1]), (sorted(made), 0, 9 * body.get("n", 1)))
            self.assertGreater(len(set(made)), 1)
            self.assertEqual({u["prompt_tokens"] for u in usages}, {usages[-1]["prompt_tokens"]})
            self.assertTrue(all(u["total_tokens"] == u["prompt_tokens"] + u["completion_tokens"] for u in usages))
        body = {"messages": user("a b"), "max_tokens": 3, "ignore_eos": True, "stream": True}
        for declined, told in (({}, True), ({"include_usage": False}, False)):
            chunks = self.server.stream(CHAT, {**body, "stream_options": {"continuous_usage_stats": True, **declined}})
            chunks.remove("[DONE]")
            self.assertEqual([bool(c.get("usage")) for c in chunks], [told] * len(chunks))

    def test_rounds_put_together_are_the_text(self):
        body = {"messages": user(WORDS), "seed": 3, "max_tokens": 80, "temperature": 0, "ignore_eos": True,
                "speculative": {"rounds": True}}
        chunks = self.server.stream(CHAT, body)
        rounds = [r for c in chunks[:-1] for r in c["choices"][0].get("forerun", {"rounds": []})["rounds"]]
        pieces = [p for r in rounds for p in r["pieces"]]
        self.assertEqual("".join(p["text"] for p in pieces), text_of(chunks))
        timings = chunks[-2]["timings"]
        self.assertEqual(sum(p["how"] == "kept" for p in pieces), timings["draft_n_accepted"])
        self.assertEqual(sum(len(r["drafts"]) for r in rounds), timings["draft_n"])
        self.assertGreater(timings["draft_n_accepted"], 0)
        for r in rounds:
            self.assertEqual(sum(d["kept"] for d in r["drafts"]), sum(p["how"] == "kept" for p in r["pieces"]))
            self.assertEqual([p["how"] for p in r["pieces"] if p["how"] == "plain"], [] if r["drafts"] else ["plain"])

    def test_stop_strings_are_cut_wherever_chunks_end(self):
        body = {"messages": user(WORDS), "seed": 4, "max_tokens": 60, "ignore_eos": True}
        whole = self.server.post(CHAT, body)[1]["choices"][0]["message"]["content"]
        for at, size in ((3, 1), (5, 9), (20, 25), (0, 4)):
            stop = whole[at:at + size]
            expected = whole[:whole.index(stop)]
            for value in (stop, [stop], ["never ever", stop]):
                _, a = self.server.post(CHAT, {**body, "stop": value})
                self.assertEqual(a["choices"][0]["message"]["content"], expected)
                self.assertEqual(a["choices"][0]["finish_reason"], "stop")
            chunks = self.server.stream(CHAT, {**body, "stop": stop})
            self.assertEqual(text_of(chunks), expected)
            self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "stop")
        _, a = self.server.post(CHAT, {**body, "stop": None})
        self.assertEqual(a["choices"][0]["message"]["content"], whole)
        # What begins like a stop string, and is none, comes out in the end.
        _, a = self.server.post(CHAT, {**body, "stop": whole[-3:] + "never"})
        self.assertEqual(a["choices"][0]["message"]["content"], whole)


class LogProbabilities(Served):
    flags = ("--fixed-draft", "--max-draft", "4")

    def test_they_are_the_same_with_drafts_and_without(self):
        for temperature in (0, 1):
            body = {"messages": user(WORDS), "seed": 5, "max_tokens": 60, "temperature": temperature, "ignore_eos": True,
                    "logprobs": True, "top_logprobs": 4}
            _, drafted = self.server.post(CHAT, body)
            _, plain = self.server.post(CHAT, {**body, "speculative": {"off": True}})
            with_drafts, without = (a["choices"][0]["logprobs"]["content"] for a in (drafted, plain))
            self.assertEqual(len(with_drafts), 60)
            if temperature == 0:
                self.assertGreater(drafted["timings"]["draft_n_accepted"], 0)
            for a, b in zip(with_drafts, without):
                self.assertEqual(a["token"], b["token"])
                self.assertAlmostEqual(a["logprob"], b["logprob"], delta=1e-4)
                tops = [t["logprob"] for t in a["top_logprobs"]]
                self.assertEqual(len(tops), 4)
                self.assertEqual(tops, sorted(tops, reverse=True))
                self.assertLess(sum(math.exp(x) for x in tops), 1 + 1e-6)
            content = drafted["choices"][0]["message"]["content"]
            self.assertEqual(bytes(b for t in with_drafts for b in t["bytes"] or []).decode(), content)
            streamed = self.server.stream(CHAT, body)
            chunks = [t for c in streamed[:-1] if c["choices"] and c["choices"][0]["logprobs"]
                      for t in c["choices"][0]["logprobs"]["content"]]
            self.assertEqual([t["token"] for t in chunks], [t["token"] for t in with_drafts])

    def test_an_echoed_prompt_is_scored_as_the_command_does(self):
        text = WORDS + " x y z"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "logits.npy")
            subprocess.run([FORERUN, "logits", "-m", self.server.model, "--precision", "f32", "--threads", "1", "--raw", "-p", text,
                            "--out", path], check=True, capture_output=True)
            rows = read_npy(path)
        for extra in ({"max_tokens": 0}, {"max_tokens": 1, "stream": False}):
            _, a = self.server.post(COMPLETIONS, {"prompt": text, "echo": True, "logprobs": 2, "temperature": 0, **extra})
            tokens = self.server.post("/tokenize", {"content": text, "add_special": True})[1]["tokens"]
            scores = a["choices"][0]["logprobs"]
            self.assertEqual(len(scores["tokens"]), len(tokens) + extra["max_tokens"])
            self.assertIsNone(scores["token_logprobs"][0])
            for i, token in enumerate(tokens[1:]):
                row = rows[i]
                most = max(row)
                total = most + math.log(sum(math.exp(x - most) for x in row))
                self.assertAlmostEqual(scores["token_logprobs"][i + 1], row[token] - total, delta=1e-5)
                self.assertAlmostEqual(max(scores["top_logprobs"][i + 1].values()), most - total, delta=1e-5)
            self.assertTrue(a["choices"][0]["text"].startswith(text))
            self.assertEqual("".join(scores["tokens"]), a["choices"][0]["text"])
            for offset, token in zip(scores["text_offset"], scores["tokens"]):
                self.assertEqual(a["choices"][0]["text"][offset:offset + len(token)], token)


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack_from("<H", data, 8)[0]
    header = data[10:10 + size].decode()
    rows, columns = eval(header[header.index("shape"):].split(":")[1].split(")")[0] + ")")  # noqa: S307
    values = struct.unpack_from(f"<{rows * columns}f", data, 10 + size)
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


class Drafted(LogProbabilities):
    """The same with a network that drafts."""

    flags = ("--drafter", "draft-model:" + LLAMA, "--fixed-draft", "--max-draft", "4")

    def test_a_request_chooses_the_drafter(self):
        for name in ("draft-model", "lookup", "none"):
            _, a = self.server.post(CHAT, {"messages": user("a"), "speculative": {"drafter": name}, "max_tokens": 4})
            self.assertEqual(a["forerun"]["drafter"], name)
        for name in ("dflash", "draft-model:/etc/passwd", ""):
            self.refused(400, CHAT, {"messages": user("a"), "speculative": {"drafter": name}}, "speculative.drafter")


class Other(Served):
    flags = ("--fixed-draft", "--max-draft", "4", "--allow-host", "Model.Example",
             "--allow-origin", "https://chat.example", "--allow-origin", "http://localhost:3000", "--name", "chat", "--alias", "other", "--alias", "third", "--top-k", "5")

    def test_models(self):
        _, _, data = self.server.get("/v1/models")
        model = json.loads(data)["data"][0]
        self.assertEqual((model["id"], model["object"]), ("chat", "model"))
        self.assertEqual([m["id"] for m in json.loads(data)["data"]], ["chat", "other", "third"])
        self.assertEqual(self.server.post(CHAT, {"messages": user("a"), "max_tokens": 2, "model": "other"})[0], 200)
        self.assertEqual(json.loads(self.server.get("/v1/models/chat")[2]), model)
        self.assertEqual(self.server.get("/v1/models/none")[0], 404)

    def test_tokens_there_and_back(self):
        for text in ("a b c", "", "<|im_end|> {x}", "0 1 2"):
            _, tokens = self.server.post("/tokenize", {"content": text})
            self.assertEqual(tokens["count"], len(tokens["tokens"]))
            _, back = self.server.post("/detokenize", {"tokens": tokens["tokens"]})
            self.assertEqual(back["content"], text)
        _, chat = self.server.post("/tokenize", {"messages": user("a b")})
        self.assertIn("<|im_start|>user\na b<|im_end|>", self.server.post("/detokenize", chat)[1]["content"])
        _, applied = self.server.post("/apply-template", {"messages": user("a b")})
        self.assertEqual(applied, {"prompt": self.server.post("/detokenize", chat)[1]["content"]})
        self.assertTrue(applied["prompt"].endswith("<|im_start|>assistant\n"), applied)
        ended = [*chat["tokens"], 2, 1, *chat["tokens"][-1:]]  # special tokens, which answers are without
        self.assertEqual(self.server.post("/detokenize", {"tokens": ended})[1]["content"], applied["prompt"] + "</s><s>\n")
        strings = self.server.post("/tokenize", {"prompt": "a b", "return_token_strs": True})[1]
        self.assertEqual(len(strings["token_strs"]), strings["count"])
        self.assertTrue("".join(strings["token_strs"]).endswith("a b"))
        _, pieces = self.server.post("/tokenize", {"content": "a b", "with_pieces": True})
        self.assertEqual("".join(p["piece"] for p in pieces["tokens"]), "a b")
        self.refused(400, "/detokenize", {"tokens": [1 << 40]}, "tokens")
        self.refused(400, "/detokenize", {"tokens": ["a"]}, "tokens")
        self.refused(400, "/tokenize", {"content": "a" * 4_000_000}, "content", ["context"])

    def test_health_and_props(self):
        for path in ("/health", "/v1/health", "/ping", "/health/"):
            self.assertEqual(json.loads(self.server.get(path)[2]), {"status": "ok"}, path)
        props = json.loads(self.server.get("/props")[2])
        self.assertEqual(props["forerun"]["rule"], "shared-noise")
        self.assertEqual(props["total_slots"], 32)
        self.assertNotIn("/", props["model_path"])

    def test_metrics(self):
        before = self.server.metrics()
        body = {"messages": user(WORDS), "seed": 1, "temperature": 0, "max_tokens": 50, "ignore_eos": True}
        answers = [self.server.post(CHAT, body)[1] for _ in range(3)]
        after = self.server.metrics()

        def grown(name):
            return after[name] - before.get(name, 0)
        self.assertEqual(grown("forerun_tokens_total"), 150)
        self.assertEqual(grown("vllm:generation_tokens_total{model_name=\"chat\"}"), 150)
        self.assertEqual(grown("llamacpp:tokens_predicted_total"), 150)
        self.assertEqual(grown("forerun_prompt_tokens_total"), sum(a["usage"]["prompt_tokens"] for a in answers))
        self.assertEqual(grown("forerun_prompt_tokens_cached_total"),
                         sum(a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in answers))
        self.assertGreater(grown("forerun_prompt_tokens_cached_total"), 0)
        drafts = sum(a["timings"]["draft_n"] for a in answers)
        kept = sum(a["timings"]["draft_n_accepted"] for a in answers)
        self.assertGreater(kept, 0)
        self.assertEqual(grown('forerun_drafts_total{drafter="auto"}'), drafts)
        self.assertEqual(grown('vllm:spec_decode_num_draft_tokens_total{model_name="chat"}'), drafts)
        self.assertEqual(grown('forerun_drafts_kept_total{drafter="auto"}'), kept)
        by_position = [n for n in after if n.startswith('forerun_drafts_kept_by_position_total{drafter="auto"')]
        self.assertEqual(sum(grown(n) for n in by_position), kept)
        self.assertEqual(grown("forerun_time_to_first_token_seconds_count"), 3)
        self.assertEqual(grown("forerun_time_between_tokens_seconds_count"), 147)
        self.assertEqual(grown('forerun_requests_total{path="/v1/chat/completions",code="200"}'), 3)
        self.assertGreater(after["forerun_kv_bytes"], 0)
        self.assertEqual(after["forerun_texts_running"], 0)
        for histogram in ("forerun_time_to_first_token_seconds", "forerun_request_seconds"):
            buckets = [v for n, v in after.items() if n.startswith(histogram + "_bucket")]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual(buckets[-1], after[histogram + "_count"])

    def test_every_metric_has_its_type_before_it(self):
        self.server.post(CHAT, {"messages": user("a"), "max_tokens": 2})
        kinds = {}
        for line in self.server.get("/metrics")[2].decode().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, kinds)
                kinds[name] = kind
            elif not line.startswith("#"):
                name = line.split("{")[0].split(" ")[0]
                base = name
                for end in ("_bucket", "_sum", "_count"):
                    if name.endswith(end) and kinds.get(name[:-len(end)]) == "histogram":
                        base = name[:-len(end)]
                self.assertIn(base, kinds, line)

    def test_an_answer_is_certified(self):
        for fields in ({"temperature": 0}, {"temperature": 1}, {"temperature": 0.8, "top_p": 0.9}):
            body = {"messages": user(WORDS), "seed": 1, "max_tokens": 50, "ignore_eos": True, **fields}
            _, answer = self.server.post(CHAT, body)
            for request in ({"id": answer["id"]}, body):
                status, c = self.server.post("/v1/forerun/certify", request)
                self.assertEqual(status, 200, c)
                self.assertTrue(c["passed"], c)
                self.assertEqual((c["tokens"], c["deterministic"], c["exact"]), (50, True, True))
                self.assertIn(c["verdict"], ("identical", "identical up to ties"))
                self.assertEqual(c["same_text"], True if "id" in request else None)
        self.refused(404, "/v1/forerun/certify", {"id": "chatcmpl-0"}, "id")
        self.refused(400, "/v1/forerun/certify", {"nothing": 1})

    def test_errors_name_the_field(self):
        good = {"messages": user("a")}
        for field, value in (("temperature", -1), ("temperature", "1"), ("top_p", 1.5), ("top_k", 1.5), ("min_p", -0.1),
                             ("n", 0), ("n", 1000), ("max_tokens", 0), ("max_tokens", "5"), ("max_completion_tokens", -2), ("n_predict", 0),
                             ("stop", 5), ("stop", [""]), ("stop", ["a"] * 100), ("stop", ["a" * 5000]), ("seed", 1.5),
                             ("seed", 10**30), ("stream", "yes"), ("logprobs", 3), ("top_logprobs", 5), ("messages", []),
                             ("messages", "a"), ("messages", None), ("speculative", 5), ("speculative", {"off": 3}),
                             ("stream_options", {"include_usage": True}), ("tools", [{"type": "function"}]),
                             ("response_format", {"type": "xml"}), ("functions", [{"name": "a"}]), ("best_of", 4), ("min_tokens", 3), ("extra_body", {"top_k": 1}),
                             ("repetition_penalty", 0), ("presence_penalty", 2.1), ("frequency_penalty", "1"),
                             ("logit_bias", [1]), ("logit_bias", [[1, "a"]]), ("logit_bias", [["a", 1]]), ("logit_bias", [[10**6, 1]]), ("logit_bias", {"x": 1}), ("logit_bias", {"1000000": 1}),
                             ("logit_bias", {"5": 101}), ("logit_bias", {"5": "1"}), ("guided_json", 5), ("guided_choice", []),
                             ("guided_choice", [""]), ("structured_outputs", {"grammar": "a"}), ("structured_outputs", {}),
                             ("structured_outputs", {"json": {}, "choice": ["a"]}), ("regex", "(?=a)"), ("ebnf", "a"), ("n_probs", 3),
                             ("chat_template", "a"), ("skip_special_tokens", False), ("continue_final_message", True)):
            error = self.refused(400, CHAT, {**good, field: value})
            self.assertTrue(error["param"].startswith(field), (field, value, error))
        self.refused(400, CHAT, {**good, "response_format": {"type": "json_object"}, "guided_choice": ["a"]}, "guided_choice", ["beside"])
        for message in ({"role": "robot", "content": "a"}, {"role": "user", "content": 5}, "a",
                        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
                        {"role": "assistant", "content": None, "tool_calls": 5}):
            error = self.refused(400, CHAT, {"messages": [message]})
            self.assertTrue(error["param"].startswith("messages.0"), error)
        for field, value in (("prompt", 5), ("prompt", []), ("prompt", [[]]), ("prompt", [1, "a"]), ("prompt", [-1]),
                             ("prompt", [10**6]), ("prompt", [["a"]]), ("prompt", ["a"] * 1000), ("suffix", "x"),
                             ("logprobs", 100), ("logprobs", True), ("n", 65)):
            error = self.refused(400, COMPLETIONS, {"prompt": "a", field: value})
            self.assertEqual(error["param"], field)
        self.refused(400, COMPLETIONS, {"prompt": "a b " * 300}, "prompt", ["context"])
        self.refused(400, CHAT, {"messages": user("a b " * 300)}, "messages", ["context"])
        self.refused(404, CHAT, {**good, "model": "gpt-4"}, "model", ["chat"])

    def test_what_changes_nothing_is_accepted(self):
        status, answer = self.server.post(CHAT, {
            "model": "chat", "messages": [{"role": "developer", "content": "b"},
                                          {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "x"}],
            "max_tokens": 2, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "tools": [], "user": "me",
            "response_format": {"type": "text"}, "stop": [], "n": None, "metadata": {"a": 1}, "top_p": 0, "top_k": -1,
            "min_tokens": 0, "parallel_tool_calls": True, "store": False, "json_schema": {}, "n_probs": 0, "skip_special_tokens": True})
        self.assertEqual(status, 200, answer)
        for fields in ({"suffix": ""}, {"n_predict": 2}, {"max_tokens": -1}):
            self.assertEqual(self.server.post(COMPLETIONS, {"prompt": "a", "seed": 1, **fields})[0], 200)

    def test_other_servers_forms_of_fields_mean_the_same(self):
        body = {"messages": user("a b"), "seed": 3, "max_tokens": 9, "ignore_eos": True, "temperature": 0}
        text = self.server.post(CHAT, body)[1]["choices"][0]["message"]["content"]
        first = self.server.post("/tokenize", {"content": text, "add_special": False})[1]["tokens"][0]
        for a, b in (({"n_predict": 5, "max_tokens": None}, {"max_tokens": 5}),
                     ({"logit_bias": [[first, -50]]}, {"logit_bias": {str(first): -50}}),
                     ({"logit_bias": [[first, False]]}, {"logit_bias": {str(first): -100}})):
            texts = [self.server.post(CHAT, {**body, **fields})[1]["choices"][0]["message"]["content"] for fields in (a, b)]
            self.assertEqual(texts[0], texts[1], a)
            self.assertNotEqual(texts[0], text)

    def test_an_answer_goes_on_from_a_last_message(self):
        body = {"messages": user("a b"), "seed": 3, "max_tokens": 9, "ignore_eos": True, "temperature": 0}
        whole = self.server.post(CHAT, body)[1]["choices"][0]["message"]["content"]
        begun = whole[:len(whole) // 2].rstrip()
        status, answer = self.server.post(CHAT, {**body, "messages": [*user("a b"), {"role": "assistant", "content": begun}],
                                                 "continue_final_message": True, "add_generation_prompt": False})
        self.assertEqual(status, 200, answer)
        _, more = self.server.post(CHAT, {**body, "messages": [*user("a b"), {"role": "assistant", "content": begun}]})
        self.assertLess(answer["usage"]["prompt_tokens"], more["usage"]["prompt_tokens"])
        wanted = {"messages": [*user("a b"), {"role": "assistant", "content": begun}], "continue_final_message": True}
        tokens = self.server.post("/tokenize", wanted)[1]
        self.assertEqual(answer["usage"]["prompt_tokens"], tokens["count"])
        text = self.server.post("/detokenize", {"tokens": tokens["tokens"]})[1]
        self.assertTrue(text.get("content", text.get("prompt")).endswith(begun), text)
        for wrong in ({"add_generation_prompt": True}, {"json_schema": {"type": "null"}}, {"guided_choice": ["a"]}):
            self.refused(400, CHAT, {**wanted, **wrong}, "continue_final_message")

    def test_requests_that_do_not_say_are_sampled_as_the_server_is_told(self):
        body = {"messages": user(WORDS), "seed": 11, "max_tokens": 60, "ignore_eos": True}
        texts = [self.server.post(CHAT, {**body, **fields})[1]["choices"][0]["message"]["content"]
                 for fields in ({}, {"top_k": 5}, {"top_k": 0}, {"top_k": -1})]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[2], texts[3])
        self.assertNotEqual(texts[0], texts[2])
        settings = json.loads(self.server.get("/props")[2])["default_generation_settings"]["params"]
        self.assertEqual((settings["top_k"], settings["temperature"]), (5, 1.0))

    def test_what_the_models_publisher_recommends_is_the_standard(self):
        with tempfile.TemporaryDirectory() as folder:
            make_chat_model(os.path.join(folder, "chat"))
            with open(os.path.join(folder, "chat", "generation_config.json"), "w") as f:
                json.dump({"temperature": 0.5, "top_k": 5, "repetition_penalty": 1.3}, f)
            body = {"messages": user(WORDS), "seed": 11, "max_tokens": 60, "ignore_eos": True}
            said = {"temperature": 0.5, "top_k": 5, "repetition_penalty": 1.3}

            def texts(*flags):
                server = Server(folder, *flags)
                try:
                    params = json.loads(server.get("/props")[2])["default_generation_settings"]["params"]
                    return ([server.post(CHAT, {**body, **fields})[1]["choices"][0]["message"]["content"] for fields in
                             ({}, said, {"temperature": 1, "top_k": 0, "repetition_penalty": 1}, {"top_k": 0})],
                            [params[name] for name in ("temperature", "top_k", "repeat_penalty")])
                finally:
                    server.stop()
            recommended, params = texts()
            self.assertEqual(params, [0.5, 5, 1.3])
            self.assertEqual(recommended[0], recommended[1])
            self.assertEqual(len(set(recommended)), 3)
            without, params = texts("--generation-config", "none")
            self.assertEqual(params, [1, 0, 1])
            self.assertEqual(without[0], without[2])
            self.assertEqual(without[1:3], recommended[1:3])
            named, params = texts("--repeat-penalty", "1", "--top-k", "0")
            self.assertEqual(params, [0.5, 0, 1])
            self.assertEqual(named[0], named[3])

    def test_the_limit_that_the_models_publisher_recommends_is_that_of_chats(self):
        with tempfile.TemporaryDirectory() as folder:
            make_chat_model(os.path.join(folder, "chat"))
            with open(os.path.join(folder, "chat", "generation_config.json"), "w") as f:
                json.dump({"max_new_tokens": 7}, f)

            def made(*flags):
                server = Server(folder, *flags)
                try:
                    n = json.loads(server.get("/props")[2])["default_generation_settings"]["params"]["n_predict"]
                    usages = [server.post(CHAT, {"messages": user("a"), "ignore_eos": True, **fields})[1]["usage"] for fields in
                              ({}, {"max_tokens": 9}, {"max_tokens": -1})]
                    return n, [u["completion_tokens"] if u["total_tokens"] < 256 else "all" for u in usages]
                finally:
                    server.stop()
            self.assertEqual(made(), (7, [7, 9, "all"]))
            self.assertEqual(made("--generation-config", "none"), (-1, ["all", 9, "all"]))

    def test_paths_are_known_without_v1_and_with_a_slash(self):
        body = {"messages": user("a"), "max_tokens": 2, "seed": 1}
        texts = {self.server.post(path, body)[1]["choices"][0]["message"]["content"]
                 for path in (CHAT, "/chat/completions", CHAT + "/")}
        self.assertEqual(len(texts), 1)
        for path in ("/models", "/models/", "/v1/models/", "/models/chat", "/v1/models/chat/"):
            self.assertEqual(self.server.get(path)[0], 200, path)
        self.assertIn("version", json.loads(self.server.get("/version")[2]))
        self.assertEqual(self.server.get("/metrics/")[0], 200)
        self.assertNotIn('"/chat/completions"', self.server.get("/metrics")[2].decode())
        for path in ("/v1/v1/models", "/v1/healthy", "/v1/metrics", "//metrics", "/v1", "/v1/"):
            self.assertEqual(self.server.get(path)[0], 404, path)
        self.refused(400, "/forerun/certify/", {"nothing": 1})
        self.assertNotIn('"/forerun/certify', self.server.get("/metrics")[2].decode())

    def test_paths_of_other_servers_are_refused_with_the_one_to_take(self):
        for path, word in (("/v1/embeddings", "no embeddings"), ("/v1/embeddings", "/v1/chat/completions"), ("/embeddings/", "no embeddings"), ("/completion", "/v1/completions"),
                           ("/v1/messages", "/v1/chat/completions"), ("/slots", "/props"), ("/v1", "/chat/completions"),
                           ("/v1/v1/chat/completions", "/v1 twice"), ("/healthz", "it is /health")):
            self.refused(404, path, {}, says=[path, word])
        self.assertNotIn(":", self.refused(404, "/nothing", {})["message"])

    def test_methods_and_paths(self):
        for method, path, status in (("GET", CHAT, 405), ("POST", "/health", 405), ("GET", "/v1/../etc/passwd", 404),
                                     ("GET", "//", 404), ("GET", "/%2e%2e/", 404), ("DELETE", "/v1/models", 405),
                                     ("OPTIONS", CHAT, 405), ("HEAD", "/health", 200), ("GET", "/health?x=1", 200)):
            got, headers, _ = self.server.request(method, path)
            self.assertEqual(got, status, (method, path))
            if status == 405:
                self.assertTrue(headers["Allow"])

    def test_the_page_has_its_files_and_asks_no_other_address(self):
        status, headers, page = self.server.get("/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        files = re.findall(r'(?:href|src)="([^"]+)"', page.decode())
        self.assertEqual(len(files), 3)
        kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
        for file in [*files, "/api.js", "/transcript.js", "/rounds.js", "/images.js"]:
            status, headers, content = self.server.get(file)
            self.assertEqual((status, headers["Content-Type"]), (200, kinds[file.split(".")[-1]] + "; charset=utf-8"))
            self.assertGreater(len(content), 100)
            self.assertNotRegex(content.decode().replace("http://www.w3.org/2000/svg", ""), "https?://")

    def test_pages_of_other_sites_are_refused(self):
        body = {"messages": user("a"), "max_tokens": 2}
        self.refused(403, CHAT, body, headers={"Origin": "http://evil.example"})
        own = f"http://{self.server.host}:{self.server.port}"
        self.assertEqual(self.server.post(CHAT, body, headers={"Origin": own})[0], 200)
        self.assertEqual(self.server.request("OPTIONS", CHAT, headers={"Origin": "http://evil.example"})[0], 405)
        for origin in ("https://chat.example", "http://localhost:3000"):
            status, headers, _ = self.server.request("OPTIONS", CHAT, headers={"Origin": origin})
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, origin))
            self.assertIn("Authorization", headers["Access-Control-Allow-Headers"])
            for fields in (body, {**body, "stream": True}, {"messages": 5}):
                _, headers, _ = self.server.request("POST", CHAT, json.dumps(fields), headers={"Origin": origin})
                self.assertEqual(headers["Access-Control-Allow-Origin"], origin, fields)
            self.assertNotIn("Access-Control-Allow-Origin", self.server.get("/health")[1])
        self.refused(403, CHAT, body, headers={"Origin": "https://chat.example.evil"})
        # A page whose own name was resolved to this machine.
        self.refused(403, CHAT, body, headers={"Origin": "http://evil.example", "Host": "evil.example"})
        for host, status in (("evil.example:80", 403), ("127.0.0.1.evil.example", 403), ("localhost", 200), ("[::1]:80", 200),
                             ("model.example:443", 200)):
            self.assertEqual(self.server.get("/props", headers={"Host": host})[0], status, host)

    def test_a_log_line_for_every_request_without_its_text(self):
        self.server.post(COMPLETIONS, {"prompt": "secret words", "max_tokens": 3, "seed": 9})
        self.server.wait_until(lambda: any(r.get("seed") == 9 for r in self.server.lines()))
        line = [r for r in self.server.lines() if r.get("seed") == 9][0]
        for key in "time request remote method path status ms prompt_tokens tokens drafted kept drafter first_token_ms".split():
            self.assertIn(key, line)
        self.assertNotIn("secret", json.dumps(self.server.lines()))


if __name__ == "__main__":
    unittest.main()
