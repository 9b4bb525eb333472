"""Chats rendered by Jinja 2 as Hugging Face's transformers sets it up: tests/data/jinja/expected.json, from the templates beside it.

usage: tools/make_jinja_values.py   (needs jinja2)
"""

import json
import os

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "jinja")

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather <now> in a \"city\"",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "é"},
                                                    "days": {"type": "integer", "default": 3}}, "required": ["city"]}}},
         {"type": "function", "function": {"name": "now", "description": "", "parameters": {}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}}}]}
CHATS = {
    "user": [{"role": "user", "content": "Hello"}],
    "system": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi \n"}],
    "turns": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": " 2 "},
              {"role": "user", "content": "\tand <b>'more'</b> & \"quotes\"\n\n"}],
    "thoughts": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb"},
                 {"role": "user", "content": "c"}, {"role": "assistant", "content": "<think>\nso\n</think>\n\nd"}],
    "tools": [{"role": "user", "content": "Weather?"}, CALL,
              {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "{\"sun\": true}"},
              {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "Thanks"}],
    "two assistants": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    "strange role": [{"role": "narrator", "content": "x"}],
    "empty": [],
}


def environment():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def contexts():
    for name, messages in CHATS.items():
        for prompt in (False, True):
            yield {"messages": messages, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
        yield {"messages": messages, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": TOOLS,
               "enable_thinking": False}


def main():
    env = environment()
    out = []
    for file in sorted(os.listdir(FOLDER)):
        if not file.endswith(".jinja"):
            continue
        with open(os.path.join(FOLDER, file), encoding="utf-8", newline="") as f:
            template = env.from_string(f.read())
        for i, context in enumerate(contexts()):
            try:
                out.append({"template": file, "context": i, "text": template.render(**context)})
            except Exception as e:  # noqa: BLE001
                out.append({"template": file, "context": i, "error": type(e).__name__})
    with open(os.path.join(FOLDER, "expected.json"), "w", encoding="utf-8") as f:
        json.dump({"contexts": list(contexts()), "renderings": out}, f, ensure_ascii=False, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
