"""Texts that match an expression, or are one of several: part of the law, so drafts and certificates hold."""

import asyncio
import pickle
import re

import pytest

import forerun
from conftest import PROMPT

EXPRESSION = r"[ab]{3}-\d{4}(x|yz)"
CHOICES = ["yes", "no, never", "perhaps"]
OPTIONS = {"max_tokens": 60, "temperature": 1.2}


def test_a_text_matches_its_expression_with_drafts_and_without(model):
    texts = set()
    for seed in range(5):
        plain = forerun.generate(model, PROMPT, None, regex=EXPRESSION, seed=seed, **OPTIONS)
        assert re.fullmatch(EXPRESSION, plain.text) and plain.finish == "end-token"
        drafted = forerun.generate(model, PROMPT, "auto", regex=EXPRESSION, fixed_draft=True, seed=seed, **OPTIONS)
        assert drafted.tokens == plain.tokens and drafted.exact
        texts.add(plain.text)
    assert len(texts) > 1


def test_a_text_is_one_of_its_choices(model):
    said = {forerun.generate(model, PROMPT, "lookup", choice=CHOICES, seed=seed, **OPTIONS).text for seed in range(24)}
    assert said == set(CHOICES)
    assert forerun.generate(model, PROMPT, choice="alone", **OPTIONS).text == "alone"
    assert forerun.generate(model, PROMPT, regex="", **OPTIONS).text == ""


@pytest.mark.parametrize("form", [{"regex": EXPRESSION}, {"choice": CHOICES}])
def test_batches_certificates_and_engines_keep_it(model, form):
    alone = [forerun.generate(model, PROMPT, None, request=i, **form, **OPTIONS).text for i in range(3)]
    assert [out.text for out in forerun.generate_batch(model, [PROMPT] * 3, "lookup", **form, **OPTIONS)] == alone
    certificate = forerun.certify(model, [PROMPT] * 8, "lookup", tokens=40, per_prompt=20, temperature=0.8, **form)
    assert certificate.passed and certificate.report.forbidden == 0
    engine = forerun.Engine()
    engine.submit(model, PROMPT, "lookup", **form, **OPTIONS)
    assert [e.result.text for e in engine if isinstance(e, forerun.TextFinished)] == alone[:1]

    async def streamed():
        async with forerun.AsyncEngine() as engine:
            return "".join([p async for p in engine.text(model, PROMPT, **form, **OPTIONS)])

    assert asyncio.run(streamed()) == alone[0]


def test_options_tell_their_form(model):
    options = forerun.GenerateOptions(regex=EXPRESSION)
    assert options.regex == EXPRESSION and options.choice is None and pickle.loads(pickle.dumps(options)).regex == EXPRESSION
    options.regex, options.choice = None, CHOICES
    assert options.regex is None and pickle.loads(pickle.dumps(options)).choice == CHOICES and "choice=['yes'" in repr(options)
    options.choice = None
    assert repr(options) == repr(forerun.GenerateOptions())


@pytest.mark.parametrize("form, message", [
    ({"regex": "(?=a)"}, "lookahead"),
    ({"regex": "(a"}, "regular expression"),
    ({"regex": 5}, "regex: 5 is no str"),
    ({"choice": []}, "nothing to choose from"),
    ({"choice": ["a", ""]}, "text"),
    ({"choice": [1]}, r"choice: \[1\] is no str \| Sequence\[str\]"),
    ({"regex": "a", "choice": ["a"]}, "regex and choice: a text has one form"),
    ({"regex": "a", "json_schema": {}}, "json_schema and regex: a text has one form"),
    ({"choice": ["a"], "ignore_end": True}, "choice and ignore_end"),
    ({"guided_regex": "a"}, "it is regex here"),
    ({"guided_choice": "a"}, "it is choice here"),
])
def test_what_would_not_be_kept_is_named(model, form, message):
    with pytest.raises(forerun.UsageError, match=message):
        forerun.generate(model, PROMPT, None, **form)
    with pytest.raises(forerun.UsageError, match=message):
        forerun.Engine().submit(model, PROMPT, None, **form)


def test_distilled_answers_have_no_form(model, tmp_path):
    for form in ({"regex": "a"}, {"choice": ["a"]}):
        with pytest.raises(forerun.UsageError, match=f"leave {list(form)[0]} out"):
            forerun.distill(model, ["a"], tmp_path / "answers", options=forerun.GenerateOptions(**form))
