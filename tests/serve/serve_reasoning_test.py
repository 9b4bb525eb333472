"""Answers of models that reason first: the reasoning apart from the answer, the same tokens whether or not it is.

usage: serve_reasoning_test.py FORERUN   (runs on a tiny model, needs no download and no package)
"""

import json
import os
import re
import shutil
import tempfile
import unittest

from serve_support import CLOSE, FORERUN, OPEN, TAGS, WORDS, Served, Server, make_harmony_model, make_long_chat_model, make_reasoning_model, user

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
INSIDE = {"chat_template_kwargs": {"start": "<think>\n"}}
OFF = {"chat_template_kwargs": {"start": "<think>\n\n</think>\n\n"}}


def split(text, inside=False):
    """(reasoning, content) of a text, as the server should tell them."""
    opened = re.match(r"\s*<think>", text)
    if not opened and not inside:
        return "", text
    reasoning, closed, content = text[opened.end() if opened else 0:].partition("</think>")
    return reasoning.strip(), content.lstrip() if closed else ""


def parts(message):
    return message.get("reasoning_content", ""), message["content"]


def streamed(chunks, index=0):
    """The same of a stream; no chunk has both, nor reasoning after content."""
    out = {"reasoning_content": "", "content": ""}
    for chunk in chunks[:-1]:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            said = {k: v for k, v in choice["delta"].items() if k in out and v}
            assert len(said) < 2 and not ("reasoning_content" in said and out["content"]), chunk
            for k, v in said.items():
                out[k] += v
    return tuple(out.values())


class Reasoning(Served):
    flags = ("--fixed-draft", "--max-draft", "5")
    make_model = staticmethod(make_reasoning_model)

    def chat(self, **fields):
        status, answer = self.server.post(CHAT, {"messages": user(WORDS), **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def test_it_is_apart_from_the_answer_and_the_tokens_are_the_same(self):
        seen = set()
        for seed in range(24):
            for start in ({}, INSIDE, OFF):
                body = {"seed": seed, "max_tokens": 40, "ignore_eos": True, "n": 2, **start,
                        "logit_bias": {str(OPEN): 8 if seed % 2 else 3, str(CLOSE): (3, 5, -100)[seed % 3]}}
                raw = self.chat(**body, reasoning_format="none")
                answer = self.chat(**body)
                chunks = self.server.stream(CHAT, {"messages": user(WORDS), **body})
                reasoning_tokens = 0
                for i, (choice, whole) in enumerate(zip(answer["choices"], raw["choices"], strict=True)):
                    text = whole["message"]["content"]
                    self.assertNotIn("reasoning_content", whole["message"])
                    wanted = split(text, start is INSIDE)
                    self.assertEqual(parts(choice["message"]), wanted, text)
                    self.assertEqual(streamed(chunks, i), wanted, text)
                    self.assertNotEqual(choice["message"].get("reasoning_content"), "")
                    seen.add((start is INSIDE, wanted[0] != "", wanted[1] != "", "<think>" in wanted[1]))
        self.assertLessEqual({(False, True, True, True), (False, False, True, True), (False, True, False, False),
                              (True, True, True, True), (True, True, False, False)}, seen)

    def test_tags_without_tokens_of_their_own(self):
        """A text that is written letter by letter, as guided_choice has it."""
        for text in ("<think>\nOne, \u00e9\u00e9\n</think>\n\nYes <think>no</think>", "<think></think>Yes", "<thinking>Yes",
                     " <think>a</think>", "<think>a</thinking>", "a</think>"):
            body = {**OFF, "guided_choice": [text], "max_tokens": 150, "temperature": 1.5,
                    "logit_bias": {str(OPEN): -100, str(CLOSE): -100}}
            self.assertEqual(self.chat(**body, reasoning_format="none")["choices"][0]["message"]["content"], text)
            self.assertEqual(parts(self.chat(**body)["choices"][0]["message"]), split(text))
            chunks = self.server.stream(CHAT, {"messages": user(WORDS), **body})
            self.assertEqual(streamed(chunks), split(text))

    def test_usage_counts_its_tokens(self):
        body = {**OFF, "max_tokens": 60, "logit_bias": {str(OPEN): -100, str(CLOSE): -100}}
        for text, tokens in (("<think>ab</think>cd", 17), ("abcd", 0), ("<think>ab", 0)):
            usage = self.chat(**body, guided_choice=[text])["usage"]
            wanted = tokens if "</think>" in text or not text.startswith("<") else usage["completion_tokens"]
            self.assertEqual(usage["completion_tokens_details"], {"reasoning_tokens": wanted}, text)
        never = {"logit_bias": {str(CLOSE): -100}, "max_tokens": 9, "ignore_eos": True, **INSIDE}
        answer = self.chat(**never, n=2)
        self.assertEqual([c["message"]["content"] for c in answer["choices"]], ["", ""])
        self.assertEqual([c["finish_reason"] for c in answer["choices"]], ["length", "length"])
        self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 18)
        chunks = self.server.stream(CHAT, {"messages": user(WORDS), **never, "stream_options": {"include_usage": True}})
        self.assertEqual(chunks[-2]["usage"]["completion_tokens_details"]["reasoning_tokens"], 9)

    def test_log_probabilities_are_those_of_all_tokens(self):
        body = {"seed": 3, "max_tokens": 40, "ignore_eos": True, "logprobs": True, "top_logprobs": 2, **INSIDE,
                "logit_bias": {str(CLOSE): 3}}
        raw = self.chat(**body, reasoning_format="none")["choices"][0]
        choice = self.chat(**body)["choices"][0]
        self.assertTrue(choice["message"]["reasoning_content"] and choice["message"]["content"])
        names = [t["token"] for t in raw["logprobs"]["content"]]
        self.assertEqual(len(names), 40)
        self.assertIn("</think>", names)
        whole = choice["logprobs"]["content"]
        self.assertEqual([t["token"] for t in whole], names)
        for ours, theirs in zip(whole, raw["logprobs"]["content"], strict=True):
            self.assertAlmostEqual(ours["logprob"], theirs["logprob"], places=4)
        chunks = self.server.stream(CHAT, {"messages": user(WORDS), **body})
        tokens = [t for c in chunks[:-1] if c["choices"][0]["logprobs"] for t in c["choices"][0]["logprobs"]["content"]]
        self.assertEqual([t["token"] for t in tokens], names)

    def test_a_stop_string_ends_it_too(self):
        body = {"messages": user(WORDS), "temperature": 0, "guided_choice": ["<think>abc</think>def"], **OFF}
        for stop, wanted in (("c", ("ab", "")), ("</think>", ("abc", "")), ("<think>", ("", "")), ("e", ("abc", "d")),
                             ("k>d", ("abc</thin", ""))):
            answer = self.chat(**{**body, "stop": [stop]})["choices"][0]
            self.assertEqual((parts(answer["message"]), answer["finish_reason"]), (wanted, "stop"), stop)
            self.assertEqual(streamed(self.server.stream(CHAT, {**body, "stop": [stop]})), wanted)

    def test_rounds_tell_the_parts_of_their_pieces(self):
        body = {"messages": user(WORDS), "seed": 3, "max_tokens": 40, "ignore_eos": True, **INSIDE,
                "logit_bias": {str(CLOSE): 3}, "speculative": {"rounds": True}}
        chunks = self.server.stream(CHAT, body)
        pieces = [p for c in chunks[:-1] for r in c["choices"][0].get("forerun", {}).get("rounds", []) for p in r["pieces"]]
        self.assertEqual(len(pieces), 40)
        reasoning = "".join(p.get("reasoning", "") for p in pieces)
        wanted = streamed(chunks)
        self.assertTrue(all(wanted))
        self.assertTrue(wanted[0].startswith(reasoning) and reasoning)
        self.assertTrue(wanted[1].startswith("".join(p["text"] for p in pieces)))
        self.assertEqual(self.server.post(CHAT, {**body, "stream": False})[1]["choices"][0]["message"]["reasoning_content"],
                         wanted[0])

    def test_a_message_that_goes_on(self):
        for content, inside in (("<think>a", True), ("a", False), ("<think>a</think>b", False), ("a <think>", False),
                                ("<think>", True)):
            body = {"messages": [*user("a"), {"role": "assistant", "content": content}], "continue_final_message": True,
                    "seed": 1, "max_tokens": 40, "ignore_eos": True, "logit_bias": {str(OPEN): 12, str(CLOSE): 10}}
            raw = self.server.post(CHAT, {**body, "reasoning_format": "none"})[1]["choices"][0]["message"]["content"]
            self.assertTrue(raw.startswith("<think>"), raw)
            got = parts(self.server.post(CHAT, body)[1]["choices"][0]["message"])
            self.assertEqual(got, split(raw, True) if inside else ("", raw))

    def test_an_answer_of_a_form_may_follow_it(self):
        schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
        seen = set()
        for form, check in (({"json_schema": schema}, lambda text: self.assertIn(json.loads(text), ({"a": True}, {"a": False}))),
                            ({"guided_choice": ["yes", "no"]}, lambda text: self.assertIn(text, ("yes", "no")))):
            for seed in range(12):
                for start in ({}, INSIDE, OFF):
                    body = {"seed": seed, "max_tokens": 200, **start, **form, "logit_bias": {str(OPEN): 4, str(CLOSE): 4}}
                    choice = self.chat(**body)["choices"][0]
                    plain = self.chat(**body, speculative={"off": True})["choices"][0]
                    self.assertEqual(choice["message"], plain["message"])
                    self.assertEqual(streamed(self.server.stream(CHAT, {"messages": user(WORDS), **body})),
                                     parts(choice["message"]))
                    if choice["finish_reason"] != "stop":
                        continue
                    check(choice["message"]["content"])
                    seen.add((start == INSIDE, start == OFF, parts(choice["message"])[0] != ""))
        self.assertLessEqual({(False, False, True), (False, False, False), (True, False, True), (False, True, False)}, seen)
        # With no reasoning to tell apart, the whole text is of the form.
        body = {"seed": 1, "max_tokens": 200, "json_schema": schema, "reasoning_format": "none"}
        for start in ({}, INSIDE):
            self.assertIn(json.loads(self.chat(**body, **start)["choices"][0]["message"]["content"]), ({"a": True}, {"a": False}))
        answer = self.chat(seed=1, json_schema=schema, max_tokens=200, **INSIDE)
        status, c = self.server.post("/v1/forerun/certify", {"id": answer["id"]})
        self.assertEqual((status, c["passed"], c["same_text"]), (200, True, True), c)

    def test_calls_of_tools_may_follow_it(self):
        now = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "additionalProperties": False}}}
        body = {"tools": [now], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 200, **INSIDE,
                "logit_bias": {str(CLOSE): 3}}
        called = 0
        for seed in range(6):
            choice = self.chat(**body, seed=seed)["choices"][0]
            if choice["finish_reason"] == "length":
                continue
            called += choice["message"]["reasoning_content"] != ""
            self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
            call, = choice["message"]["tool_calls"]
            self.assertEqual(call["function"], {"name": "now", "arguments": "{}"})
            chunks = self.server.stream(CHAT, {"messages": user(WORDS), **body, "seed": seed})
            self.assertEqual(streamed(chunks), (choice["message"]["reasoning_content"], ""))
            deltas = [c["choices"][0]["delta"] for c in chunks[:-1]]
            self.assertEqual([d["tool_calls"][0]["function"] for d in deltas if "tool_calls" in d], [call["function"]])
            self.assertNotIn("reasoning_content", next(d for d in deltas if "tool_calls" in d))
        self.assertGreater(called, 0)

    def test_completions_are_never_split(self):
        body = {"prompt": "a <think>", "seed": 1, "max_tokens": 30, "ignore_eos": True, "logit_bias": {str(CLOSE): 3}}
        status, answer = self.server.post(COMPLETIONS, body)
        self.assertEqual(status, 200, answer)
        self.assertIn("</think>", answer["choices"][0]["text"])
        self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 0)

    def test_a_certificate_scores_all_tokens(self):
        body = {"seed": 3, "max_tokens": 40, "ignore_eos": True, **INSIDE, "logit_bias": {str(CLOSE): 3}}
        answer = self.chat(**body)
        self.assertTrue(all(parts(answer["choices"][0]["message"])))
        status, c = self.server.post("/v1/forerun/certify", {"id": answer["id"]})
        self.assertEqual((status, c["passed"], c["same_text"], c["tokens"]), (200, True, True, 40), c)

    def test_requests_choose_and_others_are_refused(self):
        body = {"seed": 3, "max_tokens": 40, "ignore_eos": True, **INSIDE, "logit_bias": {str(CLOSE): 3}}
        auto = parts(self.chat(**body)["choices"][0]["message"])
        for name in ("auto", "deepseek", None):
            self.assertEqual(parts(self.chat(**body, reasoning_format=name)["choices"][0]["message"]), auto)
        for wrong in ("deepseek-legacy", "", 5, ["none"]):
            self.refused(400, CHAT, {"messages": user("a"), "reasoning_format": wrong}, "reasoning_format")

    def test_earlier_reasoning_is_the_templates_affair(self):
        messages = [*user("a"), {"role": "assistant", "content": "b", "reasoning_content": "c d"}, *user("a")]
        status, read = self.server.post("/tokenize", {"messages": messages})
        self.assertEqual(status, 200, read)
        self.assertNotIn("c d", self.server.post("/detokenize", {"tokens": read["tokens"]})[1]["content"])
        self.refused(400, CHAT, {"messages": [{**messages[1], "reasoning_content": 5}]})


class Formats(unittest.TestCase):
    """The flag, and a template without tags."""

    def served(self, reasoning, *flags, template=None):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (make_reasoning_model if reasoning else make_long_chat_model)(folder.name)
        if template:
            shutil.copy(os.path.join(DATA, "jinja", template + ".jinja"), os.path.join(folder.name, "chat", "chat_template.jinja"))
        server = Server(folder.name, *flags)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def test_templates_of_models(self):
        bias = {"logit_bias": {str(OPEN): 9, str(CLOSE): 5}, "max_tokens": 40, "ignore_eos": True}
        for name, kwargs, inside in (("deepseek", {}, True), ("qwen3", {}, False), ("qwen3", {"enable_thinking": False}, False)):
            server = self.served(True, template=name)
            told = 0
            for seed in range(6):
                body = {"messages": user("What is <think>"), "seed": seed, "chat_template_kwargs": kwargs, **bias}
                raw = server.post(CHAT, {**body, "reasoning_format": "none"})[1]["choices"][0]["message"]["content"]
                status, answer = server.post(CHAT, body)
                self.assertEqual((status, parts(answer["choices"][0]["message"])), (200, split(raw, inside)), (name, raw))
                told += "reasoning_content" in answer["choices"][0]["message"]
            self.assertGreater(told, 0, name)
            answers = [server.post(CHAT, {**body, "seed": s, "ignore_eos": False, "max_tokens": 100, "guided_choice": ["yes"]})
                       for s in range(6)]
            self.assertEqual(any("reasoning_content" in a["choices"][0]["message"] for _, a in answers), not kwargs)

    def test_tags_that_are_special_tokens(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        make_reasoning_model(folder.name, special=True)
        server = Server(folder.name)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        told = 0
        for seed in range(8):
            body = {"messages": user("a"), "seed": seed, "max_tokens": 40, "ignore_eos": True, "logit_bias": {str(OPEN): 3, str(CLOSE): 5}}
            for start in ({}, INSIDE):
                raw = server.post(CHAT, {**body, **start, "reasoning_format": "none"})[1]["choices"][0]["message"]["content"]
                got = parts(server.post(CHAT, {**body, **start})[1]["choices"][0]["message"])
                self.assertEqual(got, split(raw, start is INSIDE), raw)
                told += all(got)
            form = {**body, **INSIDE, "guided_choice": ["yes"], "max_tokens": 200, "ignore_eos": False}
            self.assertEqual(parts(server.post(CHAT, form)[1]["choices"][0]["message"])[1], "yes")
        self.assertGreater(told, 4)

    def test_the_flag_is_what_requests_without_a_format_get(self):
        text = "<think>a</think>b"
        body = {"messages": user("a"), "guided_choice": [text], "max_tokens": 60, **OFF}
        for server, flagged in ((self.served(True, "--reasoning-format", "none"), True), (self.served(False), False)):
            status, answer = server.post(CHAT, body)
            self.assertEqual((status, parts(answer["choices"][0]["message"])), (200, ("", text)), answer)
            asked = server.post(CHAT, {**body, "reasoning_format": "auto"})[1]["choices"][0]["message"]
            self.assertEqual(parts(asked), ("a", "b") if flagged else ("", text))


def taken_apart(tokens):
    """(reasoning, content, calls) of an answer in channels whose tags are the tokens with their names."""
    if not tokens or tokens[0] not in ("<|channel|>", "<|start|>") and not "".join(tokens).startswith(" to="):
        return "", "".join(tokens), []
    messages, place, header = [], "header", ""
    for token in tokens:
        if place != "header" and token == "<|start|>":
            place, header = "header", ""
        elif place == "header" and token == "<|message|>":
            place = "body"
            messages.append([header, ""])
        elif place == "header":
            header += token
        elif token == "<|end|>":
            place = "between"
        elif place == "body":
            messages[-1][1] += token
    thoughts, said, calls = [], [], []
    for head, body in messages:
        if " to=functions." in head:
            calls.append((re.search(r" to=functions\.([^ <]+)", head)[1], body))
        elif "<|channel|>analysis" in head:
            if not said and not calls:  # behind those it is left out
                thoughts.append(body)
        else:
            said.append(body)
    return "\n\n".join(t for t in thoughts if t), "\n\n".join(t for t in said if t), calls


class Harmony(Served):
    """Answers of several messages, as gpt-oss writes them."""
    make_model = staticmethod(make_harmony_model)
    TOOLS = [{"type": "function", "function": {
        "name": "weather.now", "strict": True,
        "parameters": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 4}}, "required": ["a"], "additionalProperties": False}}},
        {"type": "function", "function": {"name": "b", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}]

    def ask(self, **fields):
        """(tokens, choice, usage)"""
        body = {"messages": user(WORDS), "max_tokens": 60, "logprobs": True, **fields}
        status, answer = self.server.post(CHAT, body)
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        return [t["token"] for t in choice["logprobs"]["content"]], choice, answer["usage"]

    def texts(self, **fields):
        tokens, choice, usage = self.ask(**fields)
        return "".join(tokens), parts(choice["message"]), usage

    def letter(self, letter):
        return str(self.server.post("/tokenize", {"content": letter})[1]["tokens"][-1])

    @staticmethod
    def calls_of(message):
        return [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]

    def check_call(self, name, arguments):
        arguments = json.loads(arguments)
        self.assertIn(name, ("weather.now", "b"))
        self.assertEqual(set(arguments), {"a"} if name == "weather.now" else set())

    def test_the_form_is_of_the_final_message(self):
        none = {str(token): -100 for token in TAGS.values()}
        text, said, usage = self.texts(guided_choice=["Yes."], logit_bias=none)
        self.assertEqual((text, said), ("Yes.", ("", "Yes.")))
        self.assertEqual(usage["completion_tokens_details"]["reasoning_tokens"], 0)
        begins = set()
        for seed in range(12):
            bias = {str(TAGS["<|channel|>"]): 50, str(TAGS["<|message|>"]): 4, str(TAGS["<|end|>"]): 4, self.letter("a"): 20 * (seed % 2)}
            text, said, _ = self.texts(guided_choice=["Yes."], seed=seed, temperature=1.5, logit_bias=bias)
            begin = re.match(r"<\|channel\|>(analysis|final( ?(<\|constrain\|> ?| )[a-zA-Z_]+)?<\|message\|>|final)", text)
            self.assertTrue(begin, text)
            begins.add(begin[1][:5])
            if "<|message|>Yes." in text:
                self.assertEqual(said[1], "Yes.", text)
        self.assertEqual(begins, {"analy", "final"})

    def test_a_call_that_must_come_is_the_models_own(self):
        ways = set()
        for choice, name in (("required", None), ({"type": "function", "function": {"name": "b"}}, "b"),
                             ({"type": "function", "function": {"name": "weather.now"}}, "weather.now")):
            for seed in range(10):
                body = {"messages": user(WORDS), "tools": self.TOOLS, "tool_choice": choice, "seed": seed, "max_tokens": 300, "temperature": 1.3,
                        "logit_bias": {str(TAGS["<|end|>"]): 6, str(TAGS["<|message|>"]): 6}}
                tokens, answer, usage = self.ask(**body)
                wanted = taken_apart(tokens)
                self.assertEqual(parts(answer["message"])[0], wanted[0], tokens)
                self.assertEqual(parts(answer["message"])[1] or "", wanted[1], tokens)
                got = self.calls_of(answer["message"])
                stream = self.server.stream(CHAT, body)
                streamed_calls = [c for chunk in stream[:-1] for ch in chunk["choices"] for c in ch["delta"].get("tool_calls", [])]
                self.assertEqual(self.calls_of({"tool_calls": streamed_calls}), got)
                self.assertEqual(streamed(stream), wanted[:2], tokens)
                if answer["finish_reason"] == "length":
                    continue
                self.assertEqual(answer["finish_reason"], "tool_calls", tokens)
                self.assertEqual([(n, json.loads(a)) for n, a in got], [(n, json.loads(a)) for n, a in wanted[2]], tokens)
                self.assertEqual(len(got), 1, tokens)
                self.check_call(*got[0])
                self.assertIn(got[0][0], [name] if name else ("weather.now", "b"))
                ways.add("".join(tokens).startswith(" to="))
                if wanted[0]:
                    self.assertGreater(usage["completion_tokens_details"]["reasoning_tokens"], 0)
        self.assertEqual(ways, {True, False})

    def test_a_call_that_may_come_has_its_parameters_too(self):
        seen = set()
        schema = {"type": "object", "properties": {"c": {"type": "boolean"}}, "required": ["c"], "additionalProperties": False}
        for seed in range(24):
            body = {"tools": self.TOOLS, "seed": seed, "max_tokens": 200, "temperature": 1.2,
                    "logit_bias": {str(TAGS[name]): 8 for name in ("<|channel|>", "<|end|>", "<|message|>")}}
            if held := seed % 4 > 0:
                body.update(response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": schema}})
                body["logit_bias"][str(TAGS["<|channel|>"])] = 8 - 8 * (seed % 3)
            tokens, answer, _ = self.ask(**body)
            reasoning, content, calls = taken_apart(tokens)
            message = answer["message"]
            got = self.calls_of(message)
            for call in got:
                self.check_call(*call)
            if answer["finish_reason"] != "length":
                self.assertEqual(len(got), len(calls), tokens)
                self.assertEqual(answer["finish_reason"], "tool_calls" if calls else "stop")
                if held and not calls and "<|channel|>commentary" not in "".join(tokens):
                    self.assertIn(json.loads(message["content"]), ({"c": True}, {"c": False}))
            self.assertEqual((message["content"] or "").strip(), content.strip(), tokens)
            self.assertEqual(message.get("reasoning_content", ""), reasoning, tokens)
            seen.add((held, bool(calls), bool(content)))
        self.assertLessEqual({(True, True, False), (True, False, True), (False, False, True)}, seen)

    def test_calls_are_told_apart_where_reasoning_is_not(self):
        seen = set()
        for seed in range(10):
            body = {"tools": self.TOOLS, "tool_choice": "required", "reasoning_format": "none", "seed": seed, "max_tokens": 300,
                    "temperature": 1.3, "logit_bias": {str(TAGS["<|end|>"]): 6, str(TAGS["<|message|>"]): 6}}
            tokens, answer, usage = self.ask(**body)
            text, got = "".join(tokens), self.calls_of(answer["message"])
            self.assertNotIn("reasoning_content", answer["message"])
            self.assertEqual(usage["completion_tokens_details"]["reasoning_tokens"], 0)
            if answer["finish_reason"] == "length":
                continue
            self.assertEqual((answer["finish_reason"], len(got)), ("tool_calls", 1))
            self.check_call(*got[0])
            content = answer["message"]["content"] or ""
            self.assertTrue(text.startswith(content), (text, content))
            self.assertNotIn("to=functions.", content)
            seen.add(content != "")
        self.assertEqual(seen, {True, False})

    def test_texts_that_spell_tags_are_texts(self):
        """Of a call's argument, which ends neither the string nor the call, and of the final message."""
        tools = [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {
            "type": "object", "properties": {"a": {"const": "<|end|><|call|><tool_call>"}}, "required": ["a"], "additionalProperties": False}}}]
        for stop in ([], ["<|end|>x"], ["|>y", "<z"]):
            body = {"messages": user(WORDS), "tools": tools, "tool_choice": "required", "max_tokens": 200, "stop": stop, "logit_bias": {str(TAGS["<|end|>"]): 9}}
            for n in range(4):
                answer = self.server.post(CHAT, {**body, "seed": n})[1]["choices"][0]
                if answer["finish_reason"] == "length":
                    continue
                self.assertEqual([(n, json.loads(a)["a"]) for n, a in self.calls_of(answer["message"])], [("f", "<|end|><|call|><tool_call>")])
        text = "<|channel|>final<|message|>a<|end|> <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"
        for tags in ("plain", "tags"):
            bias = {str(t): -100 if tags == "plain" else 20 if n in ("<|channel|>", "<|message|>") else -100 for n, t in TAGS.items()}
            tokens, answer, _ = self.ask(guided_choice=[text], logit_bias=bias, max_tokens=250)
            if answer["finish_reason"] == "stop" and "analysis" not in tokens:
                self.assertEqual(answer["message"]["content"], text)

    def test_texts_of_one_request(self):
        body = {"messages": user(WORDS), "tools": self.TOOLS, "tool_choice": "required", "n": 3, "seed": 5, "max_tokens": 300, "logprobs": True,
                "speculative": {"rounds": True}, "logit_bias": {str(TAGS["<|end|>"]): 6, str(TAGS["<|message|>"]): 6}}
        status, answer = self.server.post(CHAT, body)
        self.assertEqual(status, 200, answer)
        for choice in answer["choices"]:
            tokens = [t["token"] for t in choice["logprobs"]["content"]]
            wanted = taken_apart(tokens)
            self.assertEqual(choice["message"].get("reasoning_content", ""), wanted[0])
            if choice["finish_reason"] == "tool_calls":
                self.check_call(*self.calls_of(choice["message"])[0])
            rounds = "".join(p["text"] for r in choice["forerun"]["rounds"] for p in r["pieces"])
            self.assertEqual(rounds.count("<tool_call>"), len(self.calls_of(choice["message"])))

    def test_responses_have_items_of_calls(self):
        for seed in range(6):
            status, answer = self.server.post("/v1/responses", {
                "input": WORDS, "tools": [{"type": "function", "name": "b", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}],
                "tool_choice": "required", "seed": seed, "max_output_tokens": 300})
            self.assertEqual(status, 200, answer)
            if answer["status"] == "completed":
                calls = [i for i in answer["output"] if i["type"] == "function_call"]
                self.assertEqual([(c["name"], json.loads(c["arguments"])) for c in calls], [("b", {})])

    def test_efforts_go_to_the_template(self):
        self.texts(reasoning_effort="high")
        for effort in ("odd", "none"):
            self.assertEqual(self.server.post(CHAT, {"messages": user(WORDS), "reasoning_effort": effort})[0], 400)


if __name__ == "__main__":
    assert FORERUN
    unittest.main()
