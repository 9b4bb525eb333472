"""Answers that are held to a regular expression.

usage: serve_regex_test.py FORERUN   (runs on a tiny model, needs no download and no package)
"""

import os
import re
import unittest

from serve_support import CLOSE, FORERUN, OPEN, WORDS, Served, make_long_chat_model, make_reasoning_model, user

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
EXPRESSIONS = (
    r"(yes|no|maybe)", r"\d{3}-\d{4}", r"[a-z]{1,5}@[a-z]{2,4}\.(com|org)", r"^[A-Z][a-z]*( [A-Z][a-z]*){0,3}$", r"(\d{1,3}\.){3}\d{1,3}",
    r"#[0-9a-fA-F]{6}", r"(?:0|-?[1-9]\d{0,6})(?:\.\d{1,3})?", r'{"a": \d+, "b": (true|false)}', r"\s\S\w\W\d\D", r"[^a-y\s]{2,6}",
    r".{1,12}", r"(a|b)*c{2,}?d?", r"\A(?P<year>(19|20)\d\d)-(0[1-9]|1[0-2])\Z",
    r"(?:[+*/()-] ?){1,4}=", r"(\n|\t|\\|\"|\.|\$){3}", r"[\]\-^\\]{1,4}", r"(ab?){2,}(c|(d|e)+)?", r"\x41\u0042[^\x00-C]", r"a{0}b{1}", r"")
REFUSED = (r"(?=a)b", r"(?!a)b", r"(?<=a)b", r"(?<!a)b", r"(a)\1", r"(?P<n>a)(?P=n)", r"\bword\b", r"(?i)a", r"\p{L}", r"a++", r"(?>a)b",
           "(", "[a", "a{2,1}", "*", "a{9000}", "((a{99}){99}){99}", "a" * 9000)


class Forms(Served):
    flags = ("--fixed-draft", "--max-draft", "5")
    make_model = staticmethod(make_long_chat_model)

    def texts(self, count=4, **form):
        """Those that ended, after a check that drafts change nothing."""
        out = []
        for seed in range(count):
            body = {"messages": user(WORDS), "seed": seed, "temperature": (0, 0.8, 1.3)[seed % 3], "max_tokens": 120, **form}
            status, answer = self.server.post(CHAT, body)
            self.assertEqual(status, 200, answer)
            plain = self.server.post(CHAT, {**body, "speculative": {"off": True}})[1]
            self.assertEqual(answer["choices"][0]["message"], plain["choices"][0]["message"])
            if answer["choices"][0]["finish_reason"] == "stop":
                out.append(answer["choices"][0]["message"]["content"])
        return out

    def test_texts_match_their_expression(self):
        ended = 0
        for expression in EXPRESSIONS:
            for text in self.texts(guided_regex=expression):
                self.assertIsNotNone(re.fullmatch(expression, text, re.ASCII), (expression, text))
                ended += 1
        self.assertGreater(ended, 3 * len(EXPRESSIONS))

    def test_the_judge_tells_other_expressions(self):
        wrong = [other for expression in EXPRESSIONS[:6] for text in self.texts(2, guided_regex=expression)
                 for other in EXPRESSIONS[:6] if other != expression and not re.fullmatch(other, text, re.ASCII)]
        self.assertGreater(len(wrong), 40)

    def test_the_fields_of_other_servers_are_the_same_form(self):
        wanted = self.texts(guided_regex=EXPRESSIONS[2])
        self.assertTrue(wanted)
        for form in ({"regex": EXPRESSIONS[2]}, {"structured_outputs": {"regex": EXPRESSIONS[2]}}):
            self.assertEqual(self.texts(**form), wanted, form)
        free = self.texts(1, grammar="", regex=None)
        self.assertEqual(free, self.texts(1))
        status, done = self.server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 40, "regex": "(ab){3}"})
        self.assertEqual((status, done["choices"][0]["text"]), (200, "ababab"))
        status, made = self.server.post("/v1/responses", {"input": "a", "max_output_tokens": 40, "guided_regex": "(ab){3}"})
        self.assertEqual((status, made["output"][0]["content"][0]["text"]), (200, "ababab"))

    def test_a_certificate_judges_by_the_form(self):
        answer = self.server.post(CHAT, {"messages": user(WORDS), "seed": 3, "max_tokens": 60, "regex": "[ab]{20}"})[1]
        self.assertRegex(answer["choices"][0]["message"]["content"], "^[ab]{20}$")
        status, c = self.server.post("/v1/forerun/certify", {"id": answer["id"]})
        self.assertEqual((status, c["passed"], c["same_text"]), (200, True, True), c)

    def test_what_cannot_be_kept_is_refused(self):
        for expression in REFUSED:
            for form in ({"guided_regex": expression}, {"regex": expression}, {"structured_outputs": {"regex": expression}}):
                error = self.refused(400, CHAT, {"messages": user("a"), **form}, next(iter(form)), says=["regular expression"])
                self.assertNotIn("\n", error["message"])
                self.assertLess(len(error["message"]), 400)
        tool = {"type": "function", "function": {"name": "now"}}
        for wrong, param in (({"regex": 5}, "regex"), ({"regex": "a", "guided_json": {}}, "regex"), ({"regex": "a", "guided_regex": "a"}, "regex"), ({"regex": "a", "tools": [tool]}, "regex"),
                             ({"grammar": "root ::= \"a\""}, "grammar"), ({"structured_outputs": {"grammar": "a"}}, "structured_outputs.grammar"), ({"regex": "a", "ignore_eos": True}, "ignore_eos"),
                             ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs"),
                             ({"structured_outputs": {"structural_tag": "a"}}, "structured_outputs.structural_tag")):
            self.refused(400, CHAT, {"messages": user("a"), **wrong}, param)

    def test_large_forms_are_bounded(self):
        """The largest that are taken, and others are served while they are compiled."""
        for form in ({"regex": "a{4000}"}, {"regex": "(a|b|c|d){500}"}, {"regex": ".{150}"}, {"regex": "((((a{9}){9}){9}b)?c)*"},
                     {"regex": "(a?b?c?){14}"}):
            status, answer = self.server.post(CHAT, {"messages": user("a"), "max_tokens": 5, **form})
            self.assertIn(status, (200, 400), answer)
            self.assertEqual(self.server.get("/health")[0], 200)


class AfterReasoning(Served):
    make_model = staticmethod(lambda folder: make_reasoning_model(folder, "<think>\n"))

    def test_an_answer_of_a_form_may_follow_reasoning(self):
        told = 0
        for seed in range(8):
            status, answer = self.server.post(CHAT, {"messages": user(WORDS), "seed": seed, "max_tokens": 200, "regex": "[ab]{3,5}",
                                                     "logit_bias": {str(OPEN): 3, str(CLOSE): 3}})
            self.assertEqual(status, 200, answer)
            choice = answer["choices"][0]
            if choice["finish_reason"] == "stop":
                self.assertRegex(choice["message"]["content"], "^[ab]{3,5}$")
                told += "reasoning_content" in choice["message"]
        self.assertGreater(told, 0)


if __name__ == "__main__":
    assert FORERUN
    unittest.main()
