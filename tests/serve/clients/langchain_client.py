"""LangChain's chat and completion models against a server: usage langchain_client.py URL MODEL EXPECTED."""

import sys

from langchain_openai import ChatOpenAI, OpenAI

SCHEMA = {"title": "animal", "type": "object", "required": ["kind", "age"], "additionalProperties": False,
          "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 0, "maximum": 30}}}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {
    "type": "object", "properties": {"word": {"type": "string", "maxLength": 8}}, "required": ["word"]}}}


def main():
    url, model, expected = sys.argv[1:]
    given = {"base_url": url + "/v1", "api_key": "any", "model": model, "seed": 3, "max_retries": 0}
    chat = ChatOpenAI(**given, temperature=0.8, max_tokens=24)
    question = [("system", "You answer briefly."), ("human", "Name three colours.")]
    whole = chat.invoke(question)
    assert whole.content == expected, (whole.content, expected)
    assert whole.usage_metadata["output_tokens"] > 0
    assert "".join(piece.content for piece in chat.stream(question)) == expected
    assert [answer.content for answer in chat.batch([question] * 3)] == [expected] * 3
    held = chat.with_structured_output(SCHEMA, method="json_schema").invoke("Describe my cat as JSON.")
    assert held["kind"] in ("cat", "dog") and isinstance(held["age"], int), held
    asked = chat.bind_tools([TOOL], tool_choice="look_up", parallel_tool_calls=False, max_tokens=80)
    call, = asked.invoke("Look up a word.").tool_calls
    assert call["name"] == "look_up" and set(call["args"]) == {"word"}, call
    chances = chat.bind(logprobs=True, top_logprobs=2).invoke(question).response_metadata["logprobs"]["content"]
    assert "".join(c["token"] for c in chances).startswith(expected), chances
    items = ChatOpenAI(**{k: v for k, v in given.items() if k != "seed"}, extra_body={"seed": 3}, temperature=0.8, max_tokens=24,
                       use_responses_api=True)
    assert items.invoke(question).text == expected
    assert "".join(piece.text for piece in items.stream(question)) == expected
    asked = items.model_copy(update={"max_tokens": 80}).bind_tools([TOOL], tool_choice="look_up", parallel_tool_calls=False)
    call, = asked.invoke("Look up a word.").tool_calls
    assert call["name"] == "look_up" and set(call["args"]) == {"word"}, call
    plain = OpenAI(**given, temperature=0.8, max_tokens=8)
    assert plain.invoke("The sky is") == "".join(plain.stream("The sky is"))


main()
