"""OpenAI's Responses API: the same texts as chats, items and events in OpenAI's order, and what a server without state refuses.

usage: serve_responses_test.py FORERUN   (runs on a tiny model, needs no download and no package)
"""

import json
import os
import tempfile
import unittest

from schemas import valid
from serve_support import CLOSE, FORERUN, OPEN, WORDS, Served, Server, make_long_chat_model, make_reasoning_model, user

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
INSIDE = {"chat_template_kwargs": {"start": "<think>\n"}}
SCHEMA = {"type": "object", "properties": {"b": {"type": "boolean"}, "a": {"enum": [1, 2]}}, "required": ["b", "a"],
          "additionalProperties": False}
NOW = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
       "strict": True}
CHAT_NOW = {"type": "function", "function": {k: v for k, v in NOW.items() if k != "type"}}
FIELDS = {"id", "object", "created_at", "completed_at", "status", "error", "incomplete_details", "instructions", "model", "output",
          "usage", "metadata", "parallel_tool_calls", "temperature", "top_p", "tool_choice", "tools", "text", "reasoning",
          "max_output_tokens", "previous_response_id", "store", "truncation", "user", "background", "service_tier"}


def parts(response):
    """(reasoning, text, calls) of a response."""
    reasoning = text = ""
    calls = []
    for item in response["output"]:
        if item["type"] == "function_call":
            calls.append((item["name"], item["arguments"]))
        elif item["type"] == "reasoning":
            reasoning += "".join(p["text"] for p in item["content"] if p["type"] == "reasoning_text")
        else:
            text += "".join(p["text"] for p in item["content"] if p["type"] == "output_text")
    return reasoning, text, calls


def chat_parts(answer):
    """The same of a chat's answer."""
    message = answer["choices"][0]["message"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return message.get("reasoning_content", ""), message["content"] or "", calls


def rebuilt(events):
    """The response that the events of a stream make up, after checks of their order and of each other."""
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    types = [e["type"] for e in events]
    assert types[:2] == ["response.created", "response.in_progress"], types
    for e in events[:2]:
        assert (e["response"]["status"], e["response"]["output"], e["response"]["usage"]) == ("in_progress", [], None), e
    output, item, text = [], None, ""
    for e in events[2:-1]:
        kind = e["type"].removeprefix("response.")
        assert e["output_index"] == len(output), e
        if kind == "output_item.added":
            assert item is None
            item, text, state = dict(e["item"]), "", "added"
            assert item["status"] == "in_progress" and not item.get("content") and not item.get("arguments"), e
            continue
        if kind == "output_item.done":
            assert state == ("called" if item["type"] == "function_call" else "part done"), e
            assert e["item"]["id"] == item["id"] and e["item"].keys() == item.keys()
            output.append(e["item"])
            said = e["item"]["arguments"] if item["type"] == "function_call" else e["item"]["content"][0]["text"]
            assert said == text, e
            item = None
            continue
        assert e["item_id"] == item["id"], e
        if item["type"] == "function_call":
            if kind == "function_call_arguments.delta":
                text += e["delta"]
            else:
                assert (kind, e["arguments"], e["name"]) == ("function_call_arguments.done", text, item["name"]), e
                state = "called"
            continue
        assert e["content_index"] == 0
        part, said = {"message": ("output_text", "output_text"), "reasoning": ("reasoning_text", "reasoning_text")}[item["type"]]
        if kind == "content_part.added":
            assert (state, e["part"]["type"], e["part"]["text"]) == ("added", part, ""), e
            state = "open"
        elif kind == said + ".delta":
            assert state == "open" and (e["delta"] or e["logprobs"]), e
            text += e["delta"]
        elif kind == said + ".done":
            assert (state, e["text"]) == ("open", text), e
            state = "text done"
        else:
            assert (kind, state, e["part"]["text"]) == ("content_part.done", "text done", text), e
            state = "part done"
    assert item is None
    last = events[-1]
    assert last["type"] == "response." + last["response"]["status"], last
    assert last["response"]["output"] == output, (last, output)
    return last["response"]


class Asked(Served):
    def make(self, **fields):
        status, answer = self.server.post(RESPONSES, {"input": WORDS, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def stream(self, **fields):
        c = self.server.connect()
        try:
            c.request("POST", RESPONSES, json.dumps({"input": WORDS, **fields, "stream": True}))
            r = c.getresponse()
            self.assertEqual((r.status, r.headers["Content-Type"]), (200, "text/event-stream"))
            blocks = r.read().decode().removesuffix("\n\n").split("\n\n")
        finally:
            c.close()
        events = []
        for block in blocks:
            name, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            self.assertEqual(name, "event: " + events[-1]["type"])
        return events

    def chat(self, messages, **fields):
        status, answer = self.server.post(CHAT, {"messages": messages, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def same(self, fields, messages, chat_fields):
        """The response, whole and streamed, which says what the chat does."""
        answer = self.chat(messages, **chat_fields)
        whole = self.make(**fields)
        streamed = rebuilt(self.stream(**fields))
        self.assertEqual(parts(whole), chat_parts(answer))
        self.assertEqual(parts(streamed), chat_parts(answer))
        self.assertEqual([i["type"] for i in streamed["output"]], [i["type"] for i in whole["output"]])
        for response in (whole, streamed):
            self.assertLessEqual(FIELDS, set(response))
            cut = answer["choices"][0]["finish_reason"] == "length"
            self.assertEqual(response["status"], "incomplete" if cut else "completed")
            self.assertEqual(response["incomplete_details"], {"reason": "max_output_tokens"} if cut else None)
            usage, theirs = response["usage"], answer["usage"]
            self.assertEqual((usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]),
                             (theirs["prompt_tokens"], theirs["completion_tokens"], theirs["total_tokens"]))
            self.assertEqual(usage["output_tokens_details"], theirs["completion_tokens_details"])
            self.assertIn("cached_tokens", usage["input_tokens_details"])
            self.assertEqual(response["forerun"]["seed"], answer["forerun"]["seed"])
        return whole


class Responses(Asked):
    flags = ("--fixed-draft", "--max-draft", "5")
    make_model = staticmethod(make_long_chat_model)

    def test_texts_are_those_of_chats(self):
        finished = set()
        for seed in range(12):
            sampling = {"seed": seed, "temperature": (0, 0.8, 1.3)[seed % 3], "top_p": 0.9}
            whole = self.same({**sampling, "max_output_tokens": 30, "instructions": "c"},
                              [{"role": "system", "content": "c"}, *user(WORDS)], {**sampling, "max_tokens": 30})
            finished.add(whole["status"])
        self.assertIn("incomplete", finished)
        letter = parts(whole)[1][3]
        stopped = self.make(**sampling, instructions="c", max_output_tokens=30, stop=[letter])
        self.assertEqual((stopped["status"], parts(stopped)[1]), ("completed", parts(whole)[1].partition(letter)[0]))

    def test_items_are_messages_of_the_chat(self):
        call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"z": 1, "a": 2}'}}
        items = [{"role": "developer", "content": "c"}, {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "a "}, {"type": "input_text", "text": "b"}]},
                 {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "b b"}]},
                 {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
                     {"type": "output_text", "text": "c c", "annotations": []}]},
                 {"type": "function_call", "call_id": "c1", "name": "now", "arguments": call["function"]["arguments"]},
                 {"type": "function_call", "id": "fc_1", "call_id": "c2", "name": "now", "arguments": ""},
                 {"type": "function_call_output", "call_id": "c1", "output": "12"},
                 {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "13"}]},
                 {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
        messages = [{"role": "developer", "content": "c"}, *user("a b"),
                    {"role": "assistant", "content": "c c", "reasoning_content": "b b", "tool_calls": [
                        call, {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "c1", "content": "12"}, {"role": "tool", "tool_call_id": "c2", "content": "13"},
                    {"role": "assistant", "content": "a"}, *user("b")]
        self.same({"input": items, "seed": 2, "max_output_tokens": 20}, messages, {"seed": 2, "max_tokens": 20})
        other = self.make(input=items[:-1], seed=2, max_output_tokens=20)
        self.assertNotEqual(other["usage"]["input_tokens"], self.make(input=items, seed=2)["usage"]["input_tokens"])

    def test_an_answer_may_be_sent_back_as_it_came(self):
        first = self.make(seed=1, tools=[NOW], tool_choice="required", max_output_tokens=150, parallel_tool_calls=False)
        call = first["output"][-1]
        history = [*user(WORDS), *first["output"], {"type": "function_call_output", "call_id": call["call_id"], "output": "12"}]
        messages = [*user(WORDS), {"role": "assistant", "content": None, "tool_calls": [
            {"id": call["call_id"], "type": "function", "function": {"name": "now", "arguments": call["arguments"]}}]},
            {"role": "tool", "tool_call_id": call["call_id"], "content": "12"}]
        self.same({"input": history, "tools": [NOW], "seed": 3, "max_output_tokens": 20}, messages,
                  {"tools": [CHAT_NOW], "seed": 3, "max_tokens": 20})

    def test_forms(self):
        for text, chat in (({"type": "text"}, {}), ({"type": "json_object"}, {"response_format": {"type": "json_object"}}),
                           ({"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True},
                            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}})):
            whole = self.same({"text": {"format": text}, "seed": 5, "max_output_tokens": 60}, user(WORDS),
                              {**chat, "seed": 5, "max_tokens": 60})
            self.assertEqual(whole["text"]["format"], text)
        made = json.loads(parts(whole)[1])
        self.assertTrue(valid(made, SCHEMA))
        self.assertEqual(list(made), ["b", "a"])  # in the schema's order
        self.same({"guided_choice": ["yes", "no"], "seed": 5}, user(WORDS), {"guided_choice": ["yes", "no"], "seed": 5})

    def test_calls_of_tools(self):
        several = 0
        tag = self.server.post("/tokenize", {"content": "<", "add_special": False})[1]["tokens"][-1]  # begins a further call
        for choice, chat_choice in (("required", "required"), ({"type": "function", "name": "now"},
                                                               {"type": "function", "function": {"name": "now"}})):
            for seed in range(6):
                more = {"seed": seed, "parallel_tool_calls": seed % 2 == 1, "logit_bias": {str(tag): 9}}
                whole = self.same({"tools": [NOW], "tool_choice": choice, "max_output_tokens": 300, **more}, user(WORDS),
                                  {"tools": [CHAT_NOW], "tool_choice": chat_choice, "max_tokens": 300, **more})
                calls = [i for i in whole["output"] if i["type"] == "function_call"]
                self.assertEqual({(c["name"], c["arguments"], c["status"]) for c in calls}, {("now", "{}", "completed")})
                self.assertEqual(len({c["call_id"] for c in calls} | {c["id"] for c in calls}), 2 * len(calls))
                several += len(calls) > 1
        self.assertGreater(several, 0)
        self.assertEqual((whole["tools"], whole["tool_choice"]), ([NOW], choice))
        allowed = {"mode": "required", "tools": [{"type": "function", "name": "now"}]}
        chat_allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]}
        self.same({"tools": [NOW], "tool_choice": {"type": "allowed_tools", **allowed}, "seed": 3, "max_output_tokens": 300}, user(WORDS),
                  {"tools": [CHAT_NOW], "tool_choice": {"type": "allowed_tools", "allowed_tools": chat_allowed}, "seed": 3, "max_tokens": 300})
        for choice in ("auto", "none"):
            self.same({"tools": [NOW], "tool_choice": choice, "seed": 1, "max_output_tokens": 20}, user(WORDS),
                      {"tools": [CHAT_NOW], "tool_choice": choice, "seed": 1, "max_tokens": 20})

    def test_log_probabilities(self):
        more = {"seed": 3, "top_logprobs": 2, "ignore_eos": True}
        ours = {**more, "max_output_tokens": 20, "include": ["message.output_text.logprobs", "reasoning.encrypted_content"]}
        theirs = self.chat(user(WORDS), **more, logprobs=True, max_tokens=20)["choices"][0]["logprobs"]["content"]
        part = self.make(**ours)["output"][0]["content"][0]
        self.assertEqual([t["token"] for t in part["logprobs"]], [t["token"] for t in theirs])
        self.assertEqual({len(t["top_logprobs"]) for t in part["logprobs"]}, {2})
        for a, b in zip(part["logprobs"], theirs, strict=True):
            self.assertAlmostEqual(a["logprob"], b["logprob"], places=4)
        events = self.stream(**ours)
        streamed = [t for e in events if e["type"] == "response.output_text.delta" for t in e["logprobs"]]
        self.assertEqual([t["token"] for t in streamed], [t["token"] for t in theirs])
        self.assertEqual(rebuilt(events)["output"][0]["content"][0]["logprobs"], streamed)
        plain = self.make(seed=3, max_output_tokens=5)
        self.assertEqual(plain["output"][0]["content"][0]["logprobs"], [])

    def test_the_answer_repeats_the_request(self):
        given = {"instructions": "c", "metadata": {"a": "b"}, "user": "u", "max_output_tokens": 3, "temperature": 0.5, "top_p": 0.75,
                 "parallel_tool_calls": False, "service_tier": "auto", "truncation": "disabled", "store": False,
                 "background": False, "previous_response_id": None, "stream_options": {"include_obfuscation": False},
                 "reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "medium"}, "max_tool_calls": 3}
        answer = self.make(**given)
        for name in ("instructions", "metadata", "user", "max_output_tokens", "temperature", "top_p", "parallel_tool_calls",
                     "truncation", "store", "background", "previous_response_id", "max_tool_calls"):
            self.assertEqual(answer[name], given[name], name)
        self.assertEqual(answer["reasoning"]["effort"], "low")
        self.assertEqual(answer["text"], {"format": {"type": "text"}, "verbosity": "medium"})
        plain = self.make(max_output_tokens=3)
        self.assertEqual((plain["store"], plain["metadata"], plain["tools"], plain["tool_choice"], plain["temperature"]),
                         (False, {}, [], "auto", 1.0))
        self.assertTrue(plain["id"].startswith("resp_"))
        self.assertEqual(plain["object"], "response")

    def test_an_answer_can_be_certified(self):
        answer = self.make(seed=3, max_output_tokens=30)
        for request in ({"id": answer["id"]}, {"input": WORDS, "seed": 3, "max_output_tokens": 30}):
            status, c = self.server.post("/v1/forerun/certify", request)
            self.assertEqual((status, c["passed"]), (200, True), c)
        of_completion = {"prompt": WORDS, "input": "ignored", "seed": 3, "max_tokens": 5}
        self.assertEqual(self.server.post("/v1/completions", of_completion)[0], 200)
        self.assertEqual(self.server.post("/v1/forerun/certify", of_completion)[0], 200)

    def test_what_needs_a_state_or_is_not_here_is_refused(self):
        image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]
        for field, wrong, param in (
                ("previous_response_id", "resp_1", None), ("conversation", "conv_1", None), ("store", True, None),
                ("background", True, None), ("prompt", {"id": "p"}, None), ("truncation", "auto", None),
                ("context_management", [{"type": "compaction"}], None), ("messages", user("a"), None), ("max_tokens", 5, None),
                ("max_completion_tokens", 5, None), ("response_format", {"type": "text"}, None), ("n", 2, None),
                ("logprobs", True, None), ("top_logprobs", 3, None), ("input", None, None), ("input", [], None), ("input", 5, None),
                ("input", image, "input.0.content.0"), ("input", [{"type": "item_reference", "id": "msg_1"}], "input.0"),
                ("input", [*user("a"), {"type": "web_search_call"}], "input.1"), ("input", [5], "input.0"), ("input", [{}], "input.0"),
                ("input", [{"role": "tool", "content": "a"}], "input.0.role"),
                ("input", [{"type": "function_call", "name": "a", "arguments": "{}"}], "input.0.call_id"),
                ("input", [*user("a"), {"type": "function_call", "name": "a b", "call_id": "1", "arguments": "{}"}], "input.1.name"),
                ("input", [{"role": "assistant", "content": "a"}, *({"type": "function_call", "name": n, "call_id": n} for n in ("a", "b", "c d"))],
                 "input.3.name"), ("parallel_tool_calls", 5, None),
                ("input", [{"type": "function_call_output", "call_id": "1"}], "input.0.output"),
                ("input", [{"type": "reasoning", "summary": [], "encrypted_content": "x"}], "input.0.encrypted_content"),
                ("input", "a" * 100000, "input"), ("instructions", ["a"], None), ("max_output_tokens", 0, None),
                ("max_output_tokens", "a", None), ("temperature", -1, None), ("top_p", 2, None), ("model", "gpt-5", None),
                ("tools", [{"type": "web_search"}], "tools.0"), ("tools", [CHAT_NOW], "tools.0.name"), ("tools", 5, None), ("tools", [5], "tools.0"),
                ("tools", [{**NOW, "name": "a b"}], "tools.0.name"), ("tools", [{**NOW, "parameters": {"not": {}}}], "tools"),
                ("tool_choice", "required", None), ("tool_choice", {"type": "web_search"}, None),
                ("tool_choice", {"type": "function"}, "tool_choice.name"), ("tool_choice", "maybe", None),
                ("tool_choice", {"type": "allowed_tools", "mode": "auto"}, "tool_choice"),
                ("tool_choice", {"type": "allowed_tools", "mode": "auto", "tools": [5]}, "tool_choice.tools.0"),
                ("text", {"format": {"type": "xml"}}, "text.format"), ("text", {"format": {"type": "json_schema"}}, "text.format.schema"),
                ("text", {"format": {"type": "json_schema", "name": "a", "schema": {"not": {}}}}, "text.format"),
                ("text", {"verbosity": "low"}, "text.verbosity"), ("text", 5, "text"), ("reasoning", {"effort": "vast"}, "reasoning.effort"),
                ("reasoning", "low", "reasoning"), ("metadata", {"a": 5}, None), ("metadata", {"a": "b" * 600}, None), ("user", "u" * 600, None),
                ("speculative", {"rounds": True}, "speculative.rounds"), ("include", 5, None), ("best_of", 2, None),
                ("grammar", "root ::= x", None), ("stop", [""], None), ("include", ["message.output_text.logprobs"], "include")):
            body = {"input": "a", field: wrong, **({"tools": [NOW]} if field == "include" else {})}
            error = self.refused(404 if field == "model" else 400, RESPONSES, body, param or field)
            self.assertNotIn("\n", error["message"])
            self.assertNotIn("messages.", error["message"])
        self.refused(400, RESPONSES, {"input": user("a"), "text": {"format": {"type": "json_object"}}, "guided_choice": ["a"]},
                     says=["text.format"])

    def test_a_stream_that_fails_says_so(self):
        """A server whose memory cannot hold the text."""
        with tempfile.TemporaryDirectory() as folder:
            make_long_chat_model(folder)
            path = os.path.join(folder, "chat", "config.json")
            with open(path) as f:
                config = {**json.load(f), "max_position_embeddings": 200_000}
            with open(path, "w") as f:
                json.dump(config, f)
            server = Server(folder, "--memory", "16MiB")
            try:
                served, self.server = self.server, server
                status, answer = server.post(RESPONSES, {"input": "a " * 40_000, "ignore_eos": True})
                self.assertEqual(status, 400, answer)
                events = self.stream(input="a " * 40_000, ignore_eos=True)
                self.assertEqual(events[-1]["type"], "response.failed")
                failed = rebuilt(events)
                self.assertEqual((failed["status"], failed["error"]["code"]), ("failed", "invalid_prompt"))
                self.assertEqual(failed["error"]["message"], answer["error"]["message"])
            finally:
                self.server = served
                self.assertEqual(server.stop(), 0)

    def test_metrics_and_paths(self):
        name = 'forerun_requests_total{path="/v1/responses",code="200"}'
        before = self.server.metrics().get(name, 0)
        self.assertEqual(self.server.post("/responses/", {"input": "a", "max_output_tokens": 2})[0], 200)
        self.server.wait_until(lambda: self.server.metrics().get(name, 0) == before + 1)
        self.assertEqual(self.server.get(RESPONSES)[0], 405)


class Reasoning(Asked):
    flags = ("--fixed-draft", "--max-draft", "5")
    make_model = staticmethod(make_reasoning_model)

    def test_it_is_an_item_of_its_own(self):
        kinds = set()
        for seed in range(12):
            for start in ({}, INSIDE):
                more = {"seed": seed, "ignore_eos": True, "logit_bias": {str(OPEN): 5, str(CLOSE): (3, 5, -100)[seed % 3]}, **start}
                whole = self.same({**more, "max_output_tokens": 40}, user(WORDS), {**more, "max_tokens": 40})
                kinds.add(tuple(i["type"] for i in whole["output"]))
                self.assertEqual(whole["output"][-1]["status"], "incomplete")
                for item in whole["output"][:-1]:
                    self.assertEqual((item["status"], item["summary"], item["encrypted_content"]), ("completed", [], None))
        self.assertLessEqual({("reasoning",), ("reasoning", "message"), ("message",)}, kinds)

    def test_calls_and_forms_may_follow_it(self):
        kinds = set()
        for seed in range(8):
            more = {"seed": seed, "logit_bias": {str(CLOSE): 3}, **INSIDE}
            limits = ({"max_output_tokens": 200}, {"max_tokens": 200})
            whole = self.same({**more, **limits[0], "tools": [NOW], "tool_choice": "required"}, user(WORDS),
                              {**more, **limits[1], "tools": [CHAT_NOW], "tool_choice": "required"})
            kinds.add(tuple(i["type"] for i in whole["output"][:2]))
            form = {"type": "json_schema", "name": "x", "schema": SCHEMA}
            self.same({**more, **limits[0], "text": {"format": form}}, user(WORDS),
                      {**more, **limits[1], "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}})
        self.assertIn(("reasoning", "function_call"), kinds)

    def test_log_probabilities_leave_it_out(self):
        more = {"seed": 3, "ignore_eos": True, "logit_bias": {str(CLOSE): 3}, "include": ["message.output_text.logprobs"], **INSIDE}
        whole = self.make(**more, max_output_tokens=40)
        self.assertEqual([i["type"] for i in whole["output"]], ["reasoning", "message"])
        tokens = whole["output"][1]["content"][0]["logprobs"]
        self.assertEqual(len(tokens), 40 - whole["usage"]["output_tokens_details"]["reasoning_tokens"])
        self.assertGreater(len(tokens), 0)
        self.assertNotIn("</think>", [t["token"] for t in tokens])
        streamed = rebuilt(self.stream(**more, max_output_tokens=40))
        self.assertEqual([t["token"] for t in streamed["output"][1]["content"][0]["logprobs"]], [t["token"] for t in tokens])


class Efforts(unittest.TestCase):
    def test_the_template_decides_which_efforts_there_are(self):
        for template, taken, wrong in (
                ("{{ '<think></think>' if enable_thinking is false else '' }}", {"none": "off", "medium": "on"}, ("low", "high")),
                ("<think> {{ reasoning_effort | default('x') }}", {"low": "low", "high": "high", "medium": "medium"}, ()),
                ("<think>", {"medium": "on"}, ("none", "low")), ("", {"none": "on", "low": "on", "high": "on"}, ())):
            with tempfile.TemporaryDirectory() as folder:
                make_long_chat_model(folder)
                with open(os.path.join(folder, "chat", "chat_template.jinja"), "w", encoding="utf-8") as f:
                    f.write("{{ messages[0]['content'] }}" + template)
                server = Server(folder)
                try:
                    self.check(server, taken, wrong)
                finally:
                    self.assertEqual(server.stop(), 0)

    def check(self, server, taken, wrong):
        def length(**fields):
            status, answer = server.post(RESPONSES, {"input": "a b", "max_output_tokens": 1, **fields})
            self.assertEqual(status, 200, answer)
            return answer["usage"]["input_tokens"]

        plain = length()
        for effort, name in taken.items():
            got = length(reasoning={"effort": effort, "summary": "auto"})
            variable = {"reasoning_effort": name} if name not in ("on", "off") else {"enable_thinking": name == "on"}
            self.assertEqual(got, length(chat_template_kwargs=variable), effort)
            self.assertEqual(got != plain, name == "off" or (name not in ("on", "off") and len(name) > 1), effort)
            status, answer = server.post(CHAT, {"messages": user("a b"), "max_tokens": 1, "reasoning_effort": effort})
            self.assertEqual((status, answer["usage"]["prompt_tokens"]), (200, got), answer)
        for effort in wrong:
            for path, body in ((RESPONSES, {"input": "a", "reasoning": {"effort": effort}}),
                               (CHAT, {"messages": user("a"), "reasoning_effort": effort})):
                status, answer = server.post(path, body)
                self.assertEqual(status, 400, answer)
                self.assertEqual(answer["error"]["param"], "reasoning.effort" if path == RESPONSES else "reasoning_effort")


if __name__ == "__main__":
    assert FORERUN
    unittest.main()
