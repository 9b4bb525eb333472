"""Texts that are JSON of a schema: part of the law, so drafts and certificates hold."""

import asyncio
import collections
import json
import pickle
import types

import pytest

import forerun
from conftest import PROMPT

# Bounded in all its parts: random weights end no text otherwise.
SCHEMA = {"type": "object",
          "properties": {"name": {"type": "string", "maxLength": 8},
                         "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 2, "maxItems": 3},
                         "size": {"type": "integer", "minimum": -5, "maximum": 1234}},
          "required": ["name", "tags", "size"]}
OPTIONS = {"max_tokens": 200, "temperature": 0.8, "seed": 3}


def is_kept(text):
    said = json.loads(text)
    assert list(said) == ["name", "tags", "size"] and len(said["name"]) <= 8 and -5 <= said["size"] <= 1234
    return set(said["tags"]) <= {"red", "green"}


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_text_is_json_of_its_schema_with_drafts_and_without(model, temperature):
    options = {**OPTIONS, "temperature": temperature}
    plain = forerun.generate(model, PROMPT, None, json_schema=SCHEMA, **options)
    assert is_kept(plain.text) and plain.finish == "end-token"
    drafted = forerun.generate(model, PROMPT, "auto", json_schema=SCHEMA, fixed_draft=True, **options)
    assert drafted.tokens == plain.tokens and drafted.exact


def test_schemas_are_mappings_or_json(model):
    mapping = types.MappingProxyType(SCHEMA)
    texts = {forerun.generate(model, PROMPT, None, json_schema=given, **OPTIONS).text
             for given in (SCHEMA, mapping, json.dumps(SCHEMA))}
    assert len(texts) == 1
    options = forerun.GenerateOptions(json_schema=SCHEMA)
    assert json.loads(options.json_schema) == SCHEMA and pickle.loads(pickle.dumps(options)).json_schema == options.json_schema
    assert forerun.GenerateOptions().json_schema is None and forerun.GenerateOptions(json_schema=None).json_schema is None
    options.json_schema = None
    assert repr(options) == repr(forerun.GenerateOptions())


def test_batches_certificates_and_engines_keep_it(model):
    alone = [forerun.generate(model, PROMPT, None, json_schema=SCHEMA, request=i, **OPTIONS).text for i in range(2)]
    batch = forerun.generate_batch(model, [PROMPT] * 2, "lookup", json_schema=SCHEMA, **OPTIONS)
    assert [out.text for out in batch] == alone
    certificate = forerun.certify(model, PROMPT, "lookup", tokens=60, per_prompt=60, json_schema=SCHEMA, temperature=0.8)
    assert certificate.passed and certificate.outputs > 10 and certificate.report.forbidden == 0
    engine = forerun.Engine()
    engine.submit(model, PROMPT, "lookup", json_schema=SCHEMA, **OPTIONS)
    assert [e.result.text for e in engine if isinstance(e, forerun.TextFinished)] == alone[:1]

    async def streamed():
        async with forerun.AsyncEngine() as engine:
            return "".join([p async for p in engine.text(model, PROMPT, json_schema=SCHEMA, **OPTIONS)])

    assert asyncio.run(streamed()) == alone[0]


@pytest.mark.parametrize("schema, message", [
    ({"type": "string", "pattern": "(?=a)"}, "pattern"),
    ({"type": "object", "properties": {"a": {"type": "number", "multipleOf": 3}}}, "multipleOf"),
    ("{", "JSON"),
    ("", "JSON"),
    ([1], r"json_schema: \[1\] is no schema: give a mapping, or a str of JSON"),
    (b"{}", "is no schema"),
    ({"enum": {1, 2}}, "is no JSON: Object of type set is not JSON serializable"),
])
def test_what_would_not_be_kept_is_named(model, schema, message):
    with pytest.raises(forerun.UsageError, match=message):
        forerun.generate(model, PROMPT, None, json_schema=schema)
    with pytest.raises(forerun.UsageError, match=message):
        forerun.Engine().submit(model, PROMPT, None, json_schema=schema)


def raising(error):
    """A mapping of which nothing is learned: what reads it is stopped."""
    class Stopped(collections.UserDict):
        def __iter__(self):
            raise error
    return Stopped(type="string")


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, LookupError])
def test_what_says_nothing_about_a_schema_is_raised_as_it_is(error):
    with pytest.raises(error):
        forerun.GenerateOptions(json_schema=raising(error()))


def test_a_schema_of_too_many_levels_is_refused():
    schema = {}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(forerun.UsageError, match="json_schema: is nested too deeply$"):
        forerun.GenerateOptions(json_schema=schema)
    schema = {}
    schema["items"] = types.MappingProxyType(schema)
    with pytest.raises(forerun.UsageError, match="is no JSON: Circular reference detected"):
        forerun.GenerateOptions(json_schema=schema)


def test_mappings_and_sequences_of_any_kind_make_a_schema():
    schema = types.MappingProxyType({"properties": types.MappingProxyType({"a": {"enum": collections.UserList([1, "é"])}})})
    plain = {"properties": {"a": {"enum": [1, "é"]}}}
    assert forerun.GenerateOptions(json_schema=schema).json_schema == forerun.GenerateOptions(json_schema=plain).json_schema
    with pytest.raises(forerun.UsageError, match="is no JSON: Object of type bytes is not JSON serializable"):
        forerun.GenerateOptions(json_schema={"enum": [b"a"]})


def test_what_excludes_a_schema_is_named(model, tmp_path):
    with pytest.raises(forerun.UsageError, match="json_schema and ignore_end"):
        forerun.generate(model, PROMPT, None, json_schema=SCHEMA, ignore_end=True)
    with pytest.raises(forerun.UsageError, match="leave json_schema out"):
        forerun.distill(model, ["a"], tmp_path / "answers", options=forerun.GenerateOptions(json_schema=SCHEMA))
    with pytest.raises(forerun.UsageError, match="json_schema takes the schema itself"):
        forerun.generate(model, PROMPT, None, response_format={"type": "json_object"})
