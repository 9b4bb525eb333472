"""Conversations: what they hold, and what their template gets beside the messages."""

import asyncio
import collections
import shutil
import types

import pytest

import forerun
from conftest import LLAMA, PROMPT

TEMPLATE = ("{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{{ mood }}"
            "{% for message in messages %} {{ message.role }} {{ message.content }}{% endfor %}")
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
TURNS = [{"role": "user", "content": "b c"}]
WITH = {"tools": TOOLS, "variables": {"mood": "calm"}}
FEW = {"max_tokens": 6}


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(LLAMA / name, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return forerun.Model(folder, "f32")


def test_tools_and_variables_go_to_the_template(chat):
    tokens = chat.encode_chat(TURNS, **WITH)
    assert tokens != chat.encode_chat(TURNS) and chat.decode(tokens).endswith("add calm user b c")
    alone = forerun.generate(chat, tokens, None, **FEW)
    assert forerun.generate(chat, TURNS, None, **WITH, **FEW).tokens == alone.tokens
    assert forerun.generate_batch(chat, [TURNS], None, **WITH, **FEW)[0].tokens == alone.tokens
    assert forerun.certify(chat, TURNS, "lookup", tokens=6, **WITH).outputs == 6
    engine = forerun.Engine()
    engine.submit(chat, TURNS, None, **WITH, **FEW)
    assert [e.result.tokens for e in engine if isinstance(e, forerun.TextFinished)] == [alone.tokens]

    async def streamed():
        async with forerun.AsyncEngine() as engine:
            return "".join([p async for p in engine.text(chat, TURNS, None, **WITH, **FEW)])

    assert asyncio.run(streamed()) == alone.text


def frozen(value):
    """The same in mappings and sequences that are no dict, list or tuple."""
    if isinstance(value, dict):
        return types.MappingProxyType({key: frozen(one) for key, one in value.items()})
    return collections.UserList(map(frozen, value)) if isinstance(value, list) else value


def test_mappings_and_sequences_of_any_kind_go_to_the_template(chat):
    assert chat.encode_chat(frozen(TURNS), **frozen(WITH)) == chat.encode_chat(TURNS, **WITH)
    calls = [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add"}}]}]
    assert chat.encode_chat(frozen(calls)) == chat.encode_chat(calls)
    assert forerun.generate(chat, frozen(TURNS), None, **frozen(WITH), **FEW).tokens == \
        forerun.generate(chat, TURNS, None, **WITH, **FEW).tokens
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        chat.encode_chat(TURNS, variables={"a": {1}})


@pytest.mark.parametrize("given", [{"tools": TOOLS}, {"variables": {"mood": "calm"}}])
def test_texts_have_no_template(model, given):
    name, = given
    for prompt in (PROMPT, [1, 2]):
        with pytest.raises(forerun.UsageError, match=f"{name}: are for the chat format"):
            forerun.generate(model, prompt, None, **given)
    with pytest.raises(forerun.UsageError, match="chat_template_kwargs.*have variables"):
        forerun.generate(model, PROMPT, None, chat_template_kwargs={})


def test_contents_may_be_parts_of_text(chat):
    parts = [{"type": "text", "text": "b "}, {"text": "c"}]
    for turn in ({"role": "user", "content": parts}, {"role": "user", "content": tuple(parts)}, ("user", parts)):
        assert chat.encode_chat([turn]) == chat.encode_chat(TURNS)
    whole = forerun.generate(chat, TURNS, None, **FEW)
    assert forerun.generate(chat, [{"role": "user", "content": parts}], None, **FEW).tokens == whole.tokens
    assert chat.encode_chat([("user", [])]) == chat.encode_chat([("user", "")])


@pytest.mark.parametrize("part, error, message", [
    ({"type": "image_url", "image_url": {"url": "data:"}}, forerun.UsageError,
     "a part of type 'image_url'; the model reads text alone"),
    ({"type": "input_audio"}, forerun.UsageError, "'input_audio'"),
    ({"type": 3}, forerun.UsageError, "a part of type 3"),
    ({"type": "text"}, TypeError, "a turn is"),
    ({"type": "text", "text": 3}, TypeError, "a turn is"),
    ("b c", TypeError, "a turn is"),
    (3, TypeError, "a turn is"),
])
def test_other_parts_are_refused_by_name(chat, part, error, message):
    with pytest.raises(error, match=message):
        forerun.generate(chat, [{"role": "user", "content": [part]}], None)
