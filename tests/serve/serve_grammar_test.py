"""Answers that are held to a schema or to calls of tools: always of the form, the same with drafts and without.

usage: serve_grammar_test.py FORERUN   (runs on a tiny model, needs no download and no package)
"""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from schemas import refused_schemas, schemas, valid
from cli_support import forerun, make_chat_model
from serve_support import FORERUN, Served, Server, make_long_chat_model, user

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
COUNT = 200
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def held_to(schema, **more):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}},
            **more}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 5},
                                                    "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                   "required": ["city"]}}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "additionalProperties": False}}}


class Grammars(Served):
    flags = ("--fixed-draft", "--max-draft", "5")
    make_model = staticmethod(make_long_chat_model)

    def chat(self, text, **fields):
        status, answer = self.server.post(CHAT, {"messages": user(text), **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def test_every_answer_is_of_its_schema_and_the_same_without_drafts(self):
        drafted = kept = whole = 0
        for i, schema in enumerate(schemas(COUNT)):
            fields = held_to(schema, seed=i, temperature=(0, 0.8, 1.2)[i % 3], max_tokens=180)
            answer = self.chat("a b", **fields)
            choice = answer["choices"][0]
            plain = self.chat("a b", speculative={"off": True}, **fields)["choices"][0]
            self.assertEqual(choice["message"], plain["message"], schema)
            drafted += answer["timings"]["draft_n"]
            kept += answer["timings"]["draft_n_accepted"]
            if choice["finish_reason"] == "length":
                continue
            whole += 1
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertTrue(valid(json.loads(choice["message"]["content"]), schema), (schema, choice))
        self.assertGreater(whole, 0.9 * COUNT)
        self.assertGreater(kept, 500)
        self.assertGreater(drafted, kept)

    def test_the_judge_tells_wrong_answers(self):
        """Answers of one schema mostly are none of another."""
        all_schemas = schemas(40)
        wrong = 0
        for i, schema in enumerate(all_schemas):
            answer = self.chat("a", **held_to(schema, seed=i, max_tokens=180))["choices"][0]
            if answer["finish_reason"] == "stop":
                wrong += not valid(json.loads(answer["message"]["content"]), all_schemas[(i + 1) % 40])
        self.assertGreater(wrong, 25)

    def test_what_cannot_be_kept_is_refused_and_never_free_text(self):
        for schema in refused_schemas(60):
            for path, prompt in ((CHAT, {"messages": user("a")}), (COMPLETIONS, {"prompt": "a"})):
                error = self.refused(400, path, {**prompt, **held_to(schema)})
                self.assertTrue(error["param"].startswith("response_format"), (schema, error))
        for wrong in ({"response_format": {"type": "xml"}}, {"response_format": {"type": "json_schema"}},
                      {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, {"response_format": 5},
                      held_to({"type": "null"}, ignore_eos=True), {"guided_choice": ["a"], "tools": [NOW]},
                      held_to({"enum": ["a" * 300000]})):
            self.refused(400, CHAT, {"messages": user("a"), **wrong})

    def test_json_object_and_completions_and_streams(self):
        answer = self.chat("a", response_format={"type": "json_object"}, seed=3, max_tokens=60)["choices"][0]
        self.assertTrue(answer["message"]["content"].startswith("{"))
        schema = {"type": "object", "properties": {"z": {"type": "integer", "minimum": 0, "maximum": 9},
                                                   "a": {"type": "boolean"}}, "required": ["z", "a"]}
        fields = held_to(schema, seed=5, n=3)
        status, whole = self.server.post(COMPLETIONS, {"prompt": "a b", "max_tokens": 150, **fields})
        self.assertEqual(status, 200, whole)
        for choice in whole["choices"]:
            self.assertEqual(list(json.loads(choice["text"])), ["z", "a"])  # in the schema's order
        stream = self.server.stream(COMPLETIONS, {"prompt": "a b", "max_tokens": 150, **fields})
        texts = ["", "", ""]
        for chunk in stream[:-1]:
            for c in chunk["choices"]:
                texts[c["index"]] += c["text"]
        self.assertEqual(texts, [c["text"] for c in whole["choices"]])

    def test_a_certificate_judges_by_the_schema(self):
        fields = held_to({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 8, "maxItems": 8}, seed=9)
        answer = self.chat("a b", **fields)
        for request in ({"id": answer["id"]}, {"messages": user("a b"), **fields}):
            status, c = self.server.post("/v1/forerun/certify", request)
            self.assertEqual(status, 200, c)
            self.assertTrue(c["passed"], c)

    def test_calls_of_tools(self):
        tools = {"tools": [WEATHER, NOW], "seed": 4, "max_tokens": 150}
        for choice, names in (("required", {"get_weather", "now"}),
                              ({"type": "function", "function": {"name": "get_weather"}}, {"get_weather"})):
            for temperature in (0, 0.7, 1.2):
                fields = {**tools, "tool_choice": choice, "temperature": temperature, "parallel_tool_calls": False}
                answer = self.chat("a b", **fields)["choices"][0]
                plain = self.chat("a b", speculative={"off": True}, **fields)["choices"][0]
                call, = answer["message"]["tool_calls"]
                self.assertEqual(call["function"], plain["message"]["tool_calls"][0]["function"])
                self.assertEqual((answer["finish_reason"], answer["message"]["content"]), ("tool_calls", None))
                self.assertIn(call["function"]["name"], names)
                arguments = json.loads(call["function"]["arguments"])
                if call["function"]["name"] == "get_weather":
                    self.assertTrue(valid(arguments, WEATHER["function"]["parameters"]), arguments)
                else:
                    self.assertEqual(arguments, {})
                streamed = self.server.stream(CHAT, {"messages": user("a b"), **fields})
                deltas = [c["choices"][0]["delta"] for c in streamed[:-1] if c["choices"]]
                self.assertEqual([d["tool_calls"][0]["function"] for d in deltas if "tool_calls" in d],
                                 [call["function"]])
                self.assertEqual(streamed[-2]["choices"][0]["finish_reason"], "tool_calls")

    def test_some_of_the_tools_may_be_called(self):
        def allowed(mode, *tools):
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [{"type": "function", "function": {"name": n}} for n in tools]}}
        fields = {"tools": [WEATHER, NOW], "max_tokens": 300}
        called = set()
        for seed in range(12):
            names = [("now",), ("get_weather",), ("now", "get_weather")][seed % 3]
            answer = self.chat("a b", seed=seed, tool_choice=allowed("required", *names), **fields)["choices"][0]
            got = {c["function"]["name"] for c in answer["message"].get("tool_calls", [])}
            self.assertLessEqual(got, set(names))
            called |= got
        self.assertEqual(called, {"now", "get_weather"})
        answer = self.chat("a b", seed=1, tool_choice=allowed("auto", "now"), **fields)
        # All of them stand in the prompt, which stays the same.
        self.assertEqual(answer["usage"]["prompt_tokens"], self.chat("a b", seed=1, **fields)["usage"]["prompt_tokens"])
        for wrong in (allowed("required"), allowed("maybe", "now"), allowed("auto", "other"), {"type": "allowed_tools"},
                      {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [5]}},
                      {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}, {"type": "custom", "custom": {"name": "a"}}):
            error = self.refused(400, CHAT, {"messages": user("a"), **fields, "tool_choice": wrong})
            self.assertTrue(error["param"].startswith("tool_choice"), error)

    def test_arguments_may_hold_the_tag_that_ends_a_call(self):
        for x in ("</tool_call>", 'a"\\</tool_call>\\'):
            tool = {"type": "function", "function": {"name": "f", "parameters": {
                "type": "object", "properties": {"x": {"enum": [x]}}, "required": ["x"], "additionalProperties": False}}}
            fields = {"tools": [tool], "tool_choice": "required", "max_tokens": 150, "parallel_tool_calls": False}
            call, = self.chat("a b", **fields)["choices"][0]["message"]["tool_calls"]
            self.assertEqual(json.loads(call["function"]["arguments"]), {"x": x})
            streamed = self.server.stream(CHAT, {"messages": user("a b"), **fields})
            self.assertEqual([c["choices"][0]["delta"]["tool_calls"][0]["function"] for c in streamed[:-1]
                              if c["choices"] and "tool_calls" in c["choices"][0]["delta"]], [call["function"]])

    def test_a_schema_without_an_end_is_refused(self):
        for schema in ({"$ref": "#"}, {"properties": {"x": {"$ref": "#"}}, "required": ["x"]}):
            status, answer = self.server.post(CHAT, {"messages": user("a b"), **held_to(schema)})
            self.assertEqual(status, 400, answer)
            self.assertIn("no value that ends", answer["error"]["message"])

    def test_a_model_may_also_answer_in_words(self):
        """Free to choose, random weights write no call: the text is that without tools, of the same prompt."""
        prompt = {"messages": [{"role": "system", "content": "s"}, *user("a b")], "seed": 2, "max_tokens": 30}
        status, answer = self.server.post(CHAT, {**prompt, "tools": [NOW]})
        self.assertEqual(status, 200, answer)
        text = answer["choices"][0]["message"]["content"]
        self.assertNotIn("tool_calls", answer["choices"][0]["message"])
        streamed = self.server.stream(CHAT, {**prompt, "tools": [NOW]})
        self.assertEqual("".join(c["choices"][0]["delta"].get("content", "") for c in streamed[:-1]), text)
        hidden = self.server.post(CHAT, {**prompt, "tools": [NOW], "tool_choice": "none"})[1]
        without = self.server.post(CHAT, prompt)[1]
        self.assertEqual(hidden["choices"][0]["message"], without["choices"][0]["message"])
        self.assertGreater(answer["usage"]["prompt_tokens"], without["usage"]["prompt_tokens"])

    def test_results_of_tools_are_part_of_the_conversation(self):
        messages = [*user("a"),
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "1", "content": "12"}, {"role": "tool", "content": "13"}]
        status, read = self.server.post("/tokenize", {"messages": messages})
        self.assertEqual(status, 200, read)
        text = self.server.post("/detokenize", {"tokens": read["tokens"]})[1]["content"]
        for part in ('<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
                     "<tool_response>\n12\n</tool_response>\n<tool_response>\n13\n</tool_response>"):
            self.assertIn(part.replace("\n", ""), text.replace("\n", ""))

    def test_tools_that_are_not_strict_are_kept_as_far_as_can_be(self):
        parameters = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"}},
                      "required": ["city"], "minProperties": 1, "x-order": 3}
        whole = 0
        for i in range(6):
            answer = self.chat("a b", seed=i, max_tokens=150, tool_choice="required", parallel_tool_calls=False,
                               tools=[{"type": "function", "function": {"name": "a", "parameters": parameters}}])
            if answer["choices"][0]["finish_reason"] == "length":
                continue
            whole += 1
            call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
            arguments = json.loads(call["arguments"])
            self.assertEqual(list(arguments), ["city"])
            self.assertLessEqual(len(arguments["city"]), 5)
        self.assertGreater(whole, 0)

    def test_an_answer_beside_tools_is_a_call_or_of_its_schema(self):
        schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
        kinds = set()
        for i in range(24):
            fields = held_to(schema, tools=[NOW], seed=i, temperature=1.2, max_tokens=150)
            answer = self.chat("a b", **fields)["choices"][0]
            plain = self.chat("a b", speculative={"off": True}, **fields)["choices"][0]
            for choice in (answer, plain):
                for call in choice["message"].get("tool_calls") or []:
                    del call["id"]  # of the request
            self.assertEqual(answer["message"], plain["message"])
            kinds.add(answer["finish_reason"])
            if answer["finish_reason"] == "stop":
                self.assertIn(json.loads(answer["message"]["content"]), ({"a": True}, {"a": False}))
            elif answer["finish_reason"] == "tool_calls":
                self.assertEqual({c["function"]["name"] for c in answer["message"]["tool_calls"]}, {"now"})
        self.assertLessEqual({"stop", "tool_calls"}, kinds)
        # A tag in the JSON is no call.
        for text in ("<tool_call>x</tool_call>", '<tool_call>{"name": "now", "arguments": {}}</tool_call>', "<tool_call>x"):
            fields = held_to({"const": text}, tools=[NOW], seed=1, logit_bias={str(self.open_tag()): -100})
            choice = self.chat("a b", **fields)["choices"][0]
            self.assertEqual((choice["finish_reason"], json.loads(choice["message"]["content"])), ("stop", text))
        for wrong in ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}}, {"guided_json": ""}):
            field = next(iter(wrong))
            self.refused(400, CHAT, {"messages": user("a"), "tools": [NOW], **wrong}, field)
            self.refused(400, CHAT, {"messages": user("a"), "tools": [NOW], "tool_choice": "required", **wrong}, field)

    def open_tag(self):
        """The token that a call begins with, of one byte: JSON begins with another."""
        return self.server.post("/tokenize", {"content": "<", "add_special": False})[1]["tokens"][-1]

    def test_other_servers_fields_hold_an_answer_to_the_same_form(self):
        schema = {"type": "object", "properties": {"b": {"type": "boolean"}, "a": {"enum": [1, 2]}}, "required": ["b", "a"]}
        wanted = self.chat("a b", seed=5, max_tokens=150, **held_to(schema))["choices"][0]["message"]["content"]
        self.assertEqual(list(json.loads(wanted)), ["b", "a"])
        for fields in ({"response_format": {"type": "json_object", "schema": schema}}, {"json_schema": schema},
                       {"guided_json": schema}, {"guided_json": json.dumps(schema)}, {"structured_outputs": {"json": schema}}):
            got = self.chat("a b", seed=5, max_tokens=150, **fields)["choices"][0]["message"]["content"]
            self.assertEqual(got, wanted, fields)
        for field, value in (("guided_choice", ["yes", "no"]), ("structured_outputs", {"choice": ["yes", "no"]})):
            texts = set()
            for i in range(8):
                answer = self.chat("a b", seed=i, temperature=1.5, **{field: value})
                self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
                texts.add(answer["choices"][0]["message"]["content"])
            self.assertLessEqual(texts, {"yes", "no"})
            self.assertEqual(len(texts), 2)
            _, done = self.server.post(COMPLETIONS, {"prompt": "a", field: value})
            self.assertIn(done["choices"][0]["text"], ("yes", "no"))

    def test_wrong_tools_are_refused(self):
        for wrong in ({"tools": 5}, {"tools": [5]}, {"tools": [{"type": "function"}]},
                      {"tools": [{"type": "retrieval"}]}, {"tools": [{"type": "function", "function": {"name": "a b"}}]},
                      {"tools": [NOW] * 200}, {"tools": [NOW], "tool_choice": "sometimes"}, {"tool_choice": "required"},
                      {"tools": [NOW], "tool_choice": {"type": "function", "function": {"name": "other"}}},
                      {"tools": [{"type": "function", "function": {"name": "a", "strict": True, "parameters": {"not": {}}}}]},
                      {"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]},
                      {"tools": [NOW], "ignore_eos": True}):
            self.refused(400, CHAT, {"messages": user("a"), **wrong})
        self.refused(400, COMPLETIONS, {"prompt": "a", "tools": [NOW]}, "tools")

    def test_the_tokenizer_tells_what_it_is(self):
        status, _, body = self.server.get("/tokenizer_info")
        info = json.loads(body)
        self.assertEqual(status, 200)
        self.assertEqual((info["vocab_size"], info["model_vocab_size"], info["model_max_length"]), (176, 176, 2048))
        self.assertIn("<|im_start|>", info["chat_template"])
        self.assertIn({"id": 2, "text": "</s>"}, info["end_tokens"])


class Templates(Served):
    """A model whose own template knows tools and may refuse a conversation."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        model = os.path.join(cls.folder, "chat")
        make_chat_model(model)
        with open(os.path.join(DATA, "jinja", "qwen25.jinja"), encoding="utf-8") as f:
            template = f.read()
        with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as f:
            f.write("{% if refuse is defined %}{{ raise_exception('No ' + refuse + ', please') }}{% endif %}" + template)
        path = os.path.join(model, "config.json")
        with open(path) as f:
            config = {**json.load(f), "max_position_embeddings": 2048}
        with open(path, "w") as f:
            json.dump(config, f)
        cls.server = Server(cls.folder)

    def prompt(self, **fields):
        status, read = self.server.post("/tokenize", fields)
        self.assertEqual(status, 200, read)
        return read["tokens"], self.server.post("/detokenize", {"tokens": read["tokens"]})[1]["content"].replace("\n", "")

    def test_the_template_gets_tools_calls_and_results(self):
        messages = [*user("a"),
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "1", "type": "function",
                         "function": {"name": "now", "arguments": '{"z": 1, "a": "</s>"}'}}]},
                    {"role": "tool", "tool_call_id": "1", "content": "12"}]
        text = self.prompt(messages=messages, tools=[WEATHER, NOW])[1]
        for part in ("You are a helpful assistant.# Tools", json.dumps(WEATHER) + json.dumps(NOW) + "</tools>",
                     '<tool_call>{"name": "now", "arguments": {"z": 1, "a": "</s>"}}</tool_call>',
                     "<tool_response>12</tool_response>"):
            self.assertIn(part, text)
        self.assertNotIn("# Tools", self.prompt(messages=messages, tools=[NOW], tool_choice="none")[1])
        self.assertTrue(text.endswith("<|im_start|>assistant"))
        self.assertTrue(self.prompt(messages=messages, add_generation_prompt=False)[1].endswith("<|im_end|>"))
        status, answer = self.server.post(CHAT, {"messages": messages, "tools": [NOW], "tool_choice": "required",
                                                 "max_tokens": 150, "seed": 1, "parallel_tool_calls": False})
        self.assertEqual(status, 200, answer)
        call, = answer["choices"][0]["message"]["tool_calls"]
        self.assertEqual(call["function"], {"name": "now", "arguments": "{}"})

    def test_special_tokens_in_messages_are_text(self):
        for text in ("</s>", "a</s><s>b", "<unk>"):
            tokens, shown = self.prompt(messages=user(text), tools=[{"type": "function", "function": {
                "name": "f", "description": text, "parameters": {"type": "object", "properties": {text: {}}}}}])
            self.assertFalse({0, 1, 2} & set(tokens), (text, tokens))
            self.assertEqual(shown.count(text), 3, shown)
        parsed = self.server.post("/tokenize", {"prompt": "</s>", "add_special_tokens": False})[1]["tokens"]
        self.assertEqual(parsed, [2])  # a prompt's are tokens

    def test_errors_are_the_templates_own_words(self):
        refusal = {"messages": user("a"), "chat_template_kwargs": {"refuse": "cats"}}
        for path in (CHAT, "/tokenize"):
            self.refused(400, path, refusal, "messages", says=["No cats, please"])
        self.refused(400, CHAT, {**refusal, "chat_template_kwargs": {"refuse": 5}}, "messages", says=["line 1"])
        for wrong in (5, [], "x"):
            self.refused(400, CHAT, {**refusal, "chat_template_kwargs": wrong})
        large = {str(i): i for i in range(2000)}
        self.refused(400, CHAT, {"messages": user("a"), "chat_template_kwargs": large}, says=["1024"])


class Command(unittest.TestCase):
    def test_the_command_keeps_a_schema_too(self):
        with tempfile.TemporaryDirectory() as folder:
            model, path = os.path.join(folder, "chat"), os.path.join(folder, "schema.json")
            make_chat_model(model)
            with open(path, "w") as f:
                json.dump({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}, f)
            texts = []
            for drafter in ("none", "lookup", "auto"):
                r = forerun("generate", "-m", model, "-p", "a", "--json-schema", path, "--seed", "3", "--temp",
                                        "1", "--json", "--drafter", drafter, "--fixed-draft")
                self.assertEqual(r.returncode, 0, r.stderr)
                texts.append(json.loads(r.stdout)["text"])
            self.assertEqual(len(set(texts)), 1, texts)
            self.assertLessEqual(set(json.loads(texts[0])), {"a", "b"})
            for content, says in (('{"not": {}}', "not"), ("{", "JSON"), (None, "schema file")):
                os.remove(path)
                if content is not None:
                    with open(path, "w") as f:
                        f.write(content)
                else:
                    path += ".none"
                r = forerun("generate", "-m", model, "-p", "a", "--json-schema", path)
                self.assertEqual(r.returncode, 2, r.stderr)
                self.assertIn(says, r.stderr)
                self.assertEqual(r.stdout, "")
                if content is not None:
                    self.assertIn(path, r.stderr)


if __name__ == "__main__":
    assert FORERUN
    unittest.main()
