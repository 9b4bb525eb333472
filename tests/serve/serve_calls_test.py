"""Calls of tools in the forms of Qwen3-Coder and GLM-4.5: streams are read again here, with drafts and without.

usage: serve_calls_test.py FORERUN   (runs on a tiny model, needs no download and no package)
"""

import json
import os
import random
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from schemas import valid  # noqa: E402
from serve_support import CLOSE, FORERUN, Served, make_reasoning_model, user  # noqa: E402

CHAT = "/v1/chat/completions"
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "jinja")
PROPERTIES = {"city": {"type": "string", "maxLength": 4}, "days": {"type": "integer", "minimum": 1, "maximum": 99},
              "kind": {"enum": ["1", "true", "a b"]}, "flag": {"type": "boolean"},
              "list": {"type": "array", "items": {"type": "string", "maxLength": 2}, "maxItems": 2}}
TOOLS = [{"type": "function", "function": {"name": "weather.now", "strict": True, "parameters": {
    "type": "object", "properties": PROPERTIES, "required": ["city", "kind"], "additionalProperties": False}}},
         {"type": "function", "function": {
             "name": "b", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}]
PROMPT = user("a b a b c a b a b c")


def make_model(folder, template):
    """In `folder`, for a Server: a tiny model with tags of reasoning; the variable `start` ends the template."""
    make_reasoning_model(folder)
    with open(os.path.join(DATA, template), encoding="utf-8") as f:
        text = f.read()
    with open(os.path.join(folder, "chat", "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write("{# <think> </think> #}" + text + "{{ start | default('') }}")


def calls_of(message):
    return [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]


def value_of(text, schema):
    """The value of a parameter, whose strings have no quotes."""
    types = schema.get("type", "string" if "enum" in schema else "")
    if types == "string" or "string" in types and text != "null":
        return text
    return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))


def random_tools(rng):
    """Tools whose parameters end soon, whatever the model writes."""
    kinds = [{"type": "string", "maxLength": 3}, {"type": "string", "pattern": "^[0-9a-c]{1,4}$"}, {"type": "integer"},
             {"type": "string", "format": "date"}, {"enum": ["1", "null", "x y"]}, {"type": "boolean"},
             {"type": "null"}, {"type": ["string", "null"], "maxLength": 4},
             {"type": "number", "minimum": 0, "maximum": 9},
             {"type": "array", "items": {"type": "integer"}, "maxItems": 2}, {"type": ["integer", "null"]},
             {"type": "object", "properties": {"s": {"type": "string", "maxLength": 2}}, "required": ["s"]}]
    tools = []
    for name in rng.sample(["f", "g-1", "h.h", "f_2"], rng.randint(1, 3)):
        names = rng.sample(["a", "b c", "d\"e", "\u00e9", "x.y"], rng.randint(0, 4))
        tools.append({"type": "function", "function": {
            "name": name, "strict": rng.random() < 0.5,
            "parameters": {"type": "object", "properties": {n: rng.choice(kinds) for n in names},
                           "required": [n for n in names if rng.random() < 0.7], "additionalProperties": False}}})
    return tools


class Forms:
    """The tests, of a form: `call` matches a whole call, its name and its parameters; `parameter` one of those."""
    flags = ("--fixed-draft", "--max-draft", "5")

    def read_again(self, text, tools=TOOLS):
        """(reasoning, content, calls) of an answer that has ended."""
        reasoning, closed, rest = text.rpartition("</think>")
        calls = []
        schemas = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in tools}
        for name, parameters in re.findall(self.call, rest, re.S):
            arguments = {}
            for key, value in re.findall(self.parameter, parameters, re.S):
                arguments[key] = value_of(value, schemas[name].get(key, {}))
            calls.append((name, arguments))
        return reasoning.removeprefix("<think>").strip(), re.sub(self.call, "", rest, flags=re.S).strip(), calls

    def ask(self, **fields):
        """(text, choice): the text of the tokens themselves."""
        status, answer = self.server.post(CHAT, {"messages": PROMPT, "max_tokens": 700, "logprobs": True, **fields})
        self.assertEqual(status, 200, answer)
        self.drafted += answer["timings"]["draft_n"]
        self.kept += answer["timings"]["draft_n_accepted"]
        choice = answer["choices"][0]
        pieces = [bytes(t["bytes"]) if t["bytes"] is not None else t["token"].encode()
                  for t in choice["logprobs"]["content"]]
        return b"".join(pieces).decode(errors="replace"), choice

    def setUp(self):
        self.drafted = self.kept = 0

    def streamed(self, **fields):
        """(content, reasoning, calls) of a stream, in which a call's name comes first."""
        content = reasoning = ""
        calls = []
        for chunk in self.server.stream(CHAT, {"messages": PROMPT, "max_tokens": 700, **fields})[:-1]:
            for choice in chunk["choices"]:
                content += choice["delta"].get("content") or ""
                reasoning += choice["delta"].get("reasoning_content") or ""
                for call in choice["delta"].get("tool_calls", []):
                    if call["index"] == len(calls):
                        calls.append([call["function"]["name"], ""])
                    calls[call["index"]][1] += call["function"]["arguments"]
        return content, reasoning, [tuple(c) for c in calls]

    def agree(self, fields):
        """Of one request the calls, as the tokens' text, the answer, its stream and the one without drafts have them.

        None: it was cut off."""
        text, choice = self.ask(**fields)
        message = choice["message"]
        got = calls_of(message)
        plain_text, plain = self.ask(speculative={"off": True}, **fields)
        self.assertEqual((text, got), (plain_text, calls_of(plain["message"])))
        self.assertEqual(choice["finish_reason"], plain["finish_reason"])
        self.assertEqual(self.streamed(**fields), (message["content"] or "", message.get("reasoning_content", ""), got))
        if choice["finish_reason"] == "length":
            return None
        reasoning, content, wanted = self.read_again(text, fields["tools"])
        self.assertEqual([(n, json.loads(a)) for n, a in got], wanted, text)
        self.assertEqual(message.get("reasoning_content", ""), reasoning, text)
        self.assertEqual((message["content"] or "").strip(), content, text)
        self.assertEqual(choice["finish_reason"], "tool_calls" if got else "stop", text)
        return wanted

    def check(self, fields, names):
        """The same of TOOLS: the number of calls."""
        wanted = self.agree(fields) or []
        for name, arguments in wanted:
            self.assertIn(name, names)
            self.assertLessEqual(set(arguments), set(PROPERTIES) if name == "weather.now" else set())
            if name == "weather.now":
                self.assertLessEqual({"city", "kind"}, set(arguments))
                self.assertLessEqual(len(arguments["city"]), 4)
                self.assertIn(arguments["kind"], PROPERTIES["kind"]["enum"])
                self.assertIn(arguments.get("days", 1), range(1, 100))
                self.assertIsInstance(arguments.get("flag", True), bool)
                self.assertTrue(all(isinstance(s, str) for s in arguments.get("list", [])))
        return len(wanted)

    def test_calls_that_must_come(self):
        counts, ends = set(), 0
        for choice, names in (("required", ("weather.now", "b")),
                              ({"type": "function", "function": {"name": "weather.now"}}, ("weather.now",)),
                              ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                                  {"type": "function", "function": {"name": "b"}}]}}, ("b",))):
            for seed in range(8):
                count = self.check({"tools": TOOLS, "tool_choice": choice, "seed": seed,
                                    "parallel_tool_calls": seed % 4 > 1, "temperature": (0.8, 1.4)[seed % 2],
                                    "reasoning_format": ("auto", "none")[seed % 3 > 0]}, names)
                self.assertLessEqual(count, 1 if seed % 4 < 2 or len(names) == 1 and names[0] == "weather.now" else 16)
                counts.add(min(count, 2))
                ends += count > 0
        self.assertGreater(ends, 12)
        self.assertLessEqual({1, 2}, counts)
        self.assertGreater(self.drafted, self.kept)
        self.assertGreater(self.kept, 50)

    def test_calls_of_random_tools(self):
        calls = 0
        for seed in range(30):
            tools = random_tools(random.Random(seed))
            wanted = self.agree({"tools": tools, "tool_choice": "required", "parallel_tool_calls": False, "seed": seed,
                                 "temperature": (0.9, 1.3)[seed % 2], "reasoning_format": "none"})
            for name, arguments in wanted or []:
                parameters = next(t["function"]["parameters"] for t in tools if t["function"]["name"] == name)
                self.assertTrue(valid(arguments, parameters), (arguments, parameters))
                calls += 1
        self.assertGreater(calls, 20)

    def test_calls_follow_reasoning(self):
        reasons = 0
        for seed in range(6):
            fields = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False, "seed": seed,
                      "temperature": 1.2, "chat_template_kwargs": {"start": "<think>"}, "logit_bias": {str(CLOSE): 7}}
            reasons += self.check(fields, ("weather.now", "b"))
        self.assertGreater(reasons, 3)

    def test_an_answer_is_a_call_or_of_a_schema(self):
        kinds = set()
        schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
        for seed in range(16):
            kinds.add(self.check({"tools": TOOLS, "seed": seed, "temperature": 1.4, "parallel_tool_calls": False,
                                  "response_format": {"type": "json_schema",
                                                      "json_schema": {"name": "a", "schema": schema}}},
                                 ("weather.now", "b")))
        self.assertEqual(kinds, {0, 1})

    def test_words_are_free(self):
        for seed in range(4):
            fields = {"tools": TOOLS, "seed": seed, "temperature": 1, "max_tokens": 40, "reasoning_format": "none"}
            text, choice = self.ask(**fields)
            self.assertEqual(choice["message"]["content"], text)
            self.assertEqual(self.streamed(**fields)[0], text)

    def test_responses_have_them(self):
        fields = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False, "seed": 3,
                  "temperature": 0.8, "reasoning_format": "none"}
        call, = calls_of(self.ask(**fields)[1]["message"])
        fields["tools"] = [{"type": "function", **t["function"]} for t in TOOLS]
        status, answer = self.server.post("/v1/responses",
                                          {**fields, "input": PROMPT[0]["content"], "max_output_tokens": 700})
        self.assertEqual(status, 200, answer)
        item = answer["output"][-1]
        self.assertEqual((item["type"], item["name"], item["arguments"]), ("function_call", *call))

    def test_the_template_gets_tools_calls_and_results(self):
        arguments = {"city": "</s>", "list": ["1"], "days": 2}
        for given in (json.dumps(arguments), arguments):
            messages = [*user("a"), {"role": "assistant", "content": None, "tool_calls": [
                {"id": str(i), "type": "function", "function": {"name": name, "arguments": value}}
                for i, (name, value) in enumerate((("weather.now", given), ("b", "")))]},
                *({"role": "tool", "tool_call_id": i, "content": content} for i, content in (("0", "12"), ("1", "13")))]
            status, answer = self.server.post("/apply-template", {"messages": messages, "tools": TOOLS})
            self.assertEqual(status, 200, answer)
            prompt = answer["prompt"]
            _, _, calls = self.read_again(prompt[prompt.index("<think>" if "<think>" in prompt else "assistant"):])
            self.assertEqual(calls, [("weather.now", arguments), ("b", {})], prompt)
            self.assertLess(prompt.index("weather.now"), prompt.index("</tools>"))
            self.assertEqual(prompt.count("<tool_response>"), 2)
        self.assertNotIn("</tools>", self.server.post("/apply-template", {"messages": user("a")})[1]["prompt"])

    def test_what_calls_cannot_hold_is_refused_if_it_is_strict(self):
        def tools(strict):
            parameters = {"type": "object", "properties": {"a": {"type": ["string", "object"]}}, "required": ["a"]}
            return [{"type": "function", "function": {"name": "b", "strict": strict, "parameters": parameters}}]
        error = self.refused(400, CHAT, {"messages": user("a"), "tools": tools(True)}, "tools")
        self.assertIn("do not tell apart", error["message"])
        self.ask(tools=tools(False), max_tokens=5)


class Qwen(Forms, Served):
    make_model = staticmethod(lambda folder: make_model(folder, "qwen3_coder.jinja"))
    call = r"\n?<tool_call>\n<function=([^>]+)>\n((?:<parameter=[^>]+>\n.*?\n</parameter>\n)*)</function>\n</tool_call>"
    parameter = r"<parameter=([^>]+)>\n(.*?)\n</parameter>\n"


class Glm(Forms, Served):
    make_model = staticmethod(lambda folder: make_model(folder, "glm45.jinja"))
    call = r"\n?<tool_call>([^<\n]+)\n?((?:<arg_key>[^<]+</arg_key>\n?<arg_value>.*?</arg_value>\n?)*)</tool_call>"
    parameter = r"<arg_key>([^<]+)</arg_key>\n?<arg_value>(.*?)</arg_value>"


if __name__ == "__main__":
    assert FORERUN
    unittest.main()
