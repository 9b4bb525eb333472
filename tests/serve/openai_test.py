"""The official Python client against the server, unchanged; and curl.

usage: openai_test.py FORERUN   (with the Python of build/clients/openai, which make test-clients makes; on a tiny model)
"""

import json
import os
import subprocess
import tempfile
from typing import Literal

import openai
import pydantic
from openai.types import responses as events

from serve_support import WORDS, Server, make_long_chat_model, user


class Animal(pydantic.BaseModel):
    tame: bool
    kind: Literal["cat", "dog"]


def check_responses(client, model, expected):
    """create, stream and parse, with the SDK's own types of items and events."""
    common = {"model": model, "input": WORDS, "max_output_tokens": 30, "extra_body": {"ignore_eos": True, "seed": 3}}
    whole = client.responses.create(**common, include=["message.output_text.logprobs"], top_logprobs=2, metadata={"a": "b"})
    assert (whole.output_text, whole.status, whole.incomplete_details.reason) == (expected, "incomplete", "max_output_tokens"), whole
    message, = whole.output
    assert isinstance(message, events.ResponseOutputMessage) and len(message.content[0].logprobs[0].top_logprobs) == 2, message
    assert (whole.usage.output_tokens, whole.usage.output_tokens_details.reasoning_tokens, whole.store) == (30, 0, False)
    events.Response.model_validate(whole.to_dict())  # strictly, where the client takes all that comes
    streamed = list(client.responses.create(**common, stream=True))
    names = [e.type.removeprefix("response.") for e in streamed]
    assert names[:4] == ["created", "in_progress", "output_item.added", "content_part.added"], names
    assert names[-4:] == ["output_text.done", "content_part.done", "output_item.done", "incomplete"], names
    assert "".join(e.delta for e in streamed if isinstance(e, events.ResponseTextDeltaEvent)) == expected
    for e in streamed:
        type(e).model_validate(e.to_dict())
    asked = {"model": model, "input": "a", "text_format": Animal, "extra_body": {"seed": 1}, "max_output_tokens": 150}
    animal = client.responses.parse(**asked).output_parsed
    assert isinstance(animal, Animal), animal
    with client.responses.stream(**asked) as stream:
        seen = list(stream)
        assert stream.get_final_response().output_parsed == animal
    assert [e.parsed for e in seen if e.type == "response.output_text.done"] == [animal]
    assert seen[-1].type == "response.completed"
    tool = {"type": "function", "name": "now", "description": "the time", "strict": True,
            "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}}
    asked = {"model": model, "tools": [tool], "parallel_tool_calls": False, "max_output_tokens": 150, "extra_body": {"seed": 1}}
    answer = client.responses.create(**asked, input="a", tool_choice="required")
    call, = answer.output
    assert isinstance(call, events.ResponseFunctionToolCall) and (call.name, call.arguments) == ("now", "{}"), call
    with client.responses.stream(**asked, input="a", tool_choice="required") as stream:
        done = [e for e in stream if e.type == "response.function_call_arguments.done"]
        assert [e.arguments for e in done] == ["{}"] and stream.get_final_response().output[0].parsed_arguments == {}
    history = [{"role": "user", "content": "a"}, *answer.output, {"type": "function_call_output", "call_id": call.call_id, "output": "12"}]
    assert client.responses.create(**asked, input=history).status in ("completed", "incomplete")
    for wrong in ({"previous_response_id": answer.id}, {"store": True}, {"background": True}, {"tools": [{"type": "web_search"}]}):
        try:
            client.responses.create(**{**common, **wrong})
            raise AssertionError(f"{wrong} was accepted")
        except openai.BadRequestError as e:
            assert e.param == {"tools": "tools.0"}.get(next(iter(wrong)), next(iter(wrong))), e


def main():
    folder = tempfile.mkdtemp()
    make_long_chat_model(folder)
    key = os.path.join(folder, "keys")
    with open(key, "w") as f:
        f.write("sk-test\n")
    server = Server(folder, "--api-key-file", key, "--max-active", "1", "--max-queue", "0")
    base = f"http://{server.host}:{server.port}/v1"
    client = openai.OpenAI(base_url=base, api_key="sk-test", max_retries=0)
    model = client.models.list().data[0].id
    assert client.models.retrieve(model).id == model

    common = {"model": model, "messages": user(WORDS), "seed": 3, "max_completion_tokens": 30,
              "extra_body": {"ignore_eos": True}}
    expected = server.alone(WORDS, 3, 30, "--temp", "1", "--ignore-end")
    whole = client.chat.completions.create(**common, logprobs=True, top_logprobs=2)
    assert whole.choices[0].message.content == expected
    assert len(whole.choices[0].logprobs.content) == 30
    assert whole.usage.completion_tokens == 30
    with client.chat.completions.create(**common, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == expected
    assert chunks[-1].usage.completion_tokens == 30
    plain = client.completions.create(model=model, prompt=["a b", "1 2"], max_tokens=0, echo=True, logprobs=1, seed=1)
    assert plain.choices[1].text == "1 2" and plain.choices[1].logprobs.token_logprobs[0] is None
    streamed = client.completions.create(model=model, prompt="a b", max_tokens=8, seed=1, stream=True)
    assert len("".join(c.choices[0].text for c in streamed if c.choices)) > 0
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "additionalProperties": False}}}
    asked = {"model": model, "messages": user("a"), "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
    call, = client.chat.completions.create(**asked).choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("now", "{}"), call
    pieces = [c.choices[0].delta.tool_calls for c in client.chat.completions.create(**asked, stream=True) if c.choices]
    assert [p[0].function.name for p in pieces if p] == ["now"], pieces
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["x", "y"]}}}
    held = client.chat.completions.create(model=model, messages=user("a"), response_format=form)
    assert held.choices[0].message.content in ('"x"', '"y"'), held
    for wrong, error in (({"model": "gpt-4"}, openai.NotFoundError), ({"temperature": 5000}, openai.BadRequestError),
                         ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"not": {}}}}},
                          openai.BadRequestError)):
        try:
            client.chat.completions.create(**{**common, **wrong})
            raise AssertionError(f"{wrong} was accepted")
        except error as e:
            assert e.body["message"], e
    try:
        openai.OpenAI(base_url=base, api_key="wrong", max_retries=0).models.list()
        raise AssertionError("a wrong key was accepted")
    except openai.AuthenticationError:
        pass

    check_responses(client, model, expected)

    out = subprocess.run(["curl", "-sS", "-H", "Authorization: Bearer sk-test", "-d",
                          json.dumps({"messages": user("a"), "max_tokens": 3}), base + "/chat/completions"],
                         capture_output=True, check=True)
    assert json.loads(out.stdout)["usage"]["completion_tokens"] == 3 or b"stop" in out.stdout
    big = os.path.join(folder, "big")
    with open(big, "wb") as f:
        f.truncate(100_000_000)
    out = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Authorization: Bearer sk-test",
                          "--data-binary", "@" + big, base + "/completions"], capture_output=True, text=True)
    assert out.stdout == "413", out
    assert server.stop() == 0
    print(f"openai {openai.__version__} and curl: fine")


if __name__ == "__main__":
    main()
