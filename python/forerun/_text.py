"""Texts: what the module's functions take, made from what is convenient."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from . import _forerun
from ._fields import TextFields, Tools, Unpack, Variables
from ._forerun import Certificate, Drafter, GenerateOptions, Generated, Model, UsageError

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""A text, its tokens, or a conversation: [{"role": "user", "content": "..."}]."""


def tokens_of(model: Model, prompt: Prompt, tools: Tools = None, variables: Variables = None) -> list[int]:
    """The tokens of a prompt; a conversation is put into the model's chat format, with tools and variables."""
    turns: list[Any] = []
    if not isinstance(prompt, str):
        _refuse_what_is_no_prompt(prompt)
        turns = list(prompt)
        if turns and isinstance(turns[0], Mapping):
            return model.encode_chat(turns, tools, variables)
    for name, given in (("tools", tools), ("variables", variables)):
        if given is not None:
            raise UsageError(f"{name}: are for the chat format; give messages, not a text or tokens")
    return model.encode(prompt) if isinstance(prompt, str) else [operator.index(token) for token in turns]


def _refuse_what_is_no_prompt(prompt: object) -> None:
    """Of what can be iterated over, and is not meant so."""
    if isinstance(prompt, (bytes, bytearray, memoryview, Mapping)):
        raise TypeError(f"a prompt is a str, tokens, or a list of messages, not {type(prompt).__name__}: decode bytes "
                        "first, put a message into a list")


def drafter_of(model: Model, drafter: Drafter | str | None) -> Drafter:
    return drafter if isinstance(drafter, Drafter) else Drafter(drafter or "none", model)


def options_of(kind: Any, options: Any, fields: Mapping[str, Any]) -> Any:
    if options is None:
        return kind(**fields)
    if fields:
        raise TypeError(f"give {kind.__name__} or its fields ({', '.join(fields)}), not both")
    return options


def generate(model: Model, prompt: Prompt, drafter: Drafter | str | None = "auto", *,
             on_text: Callable[[str], object] | None = None, tools: Tools = None, variables: Variables = None,
             options: GenerateOptions | None = None, **fields: Unpack[TextFields]) -> Generated:
    """Generates one text. `fields` are those of GenerateOptions.

    `tools` and `variables` go to the chat format of a conversation, as those of Model.encode_chat.
    A Drafter keeps what it learned for the next call; its name makes a new one.
    `on_text` gets finished characters; what it raises ends the text and is raised here.
    """
    return _forerun.generate(model, drafter_of(model, drafter), tokens_of(model, prompt, tools, variables),
                             options_of(GenerateOptions, options, fields), on_text)


def generate_batch(model: Model, prompts: Iterable[Prompt], drafter: Drafter | str | None = "auto", *,
                   tools: Tools = None, variables: Variables = None, options: GenerateOptions | None = None,
                   **fields: Unpack[TextFields]) -> list[Generated]:
    """Generates a text for every prompt in one batch; the i-th draws the random numbers of request + i."""
    _refuse_what_is_no_prompt(prompts)
    if isinstance(prompts, str):
        raise TypeError("a batch has several prompts: put a str into a list, or call generate")
    tokens = [tokens_of(model, p, tools, variables) for p in prompts]
    return _forerun.generate_batch(model, drafter_of(model, drafter), tokens, options_of(GenerateOptions, options, fields))


def certify(model: Model, prompts: Prompt | Iterable[Prompt], drafter: Drafter | str | None = "auto", *,
            tokens: int = 1024, per_prompt: int = 128, tools: Tools = None, variables: Variables = None,
            options: GenerateOptions | None = None, **fields: Unpack[TextFields]) -> Certificate:
    """Generates up to `tokens` outputs and scores them again by plain passes of the target."""
    _refuse_what_is_no_prompt(prompts)
    several: list[Any] = [prompts] if isinstance(prompts, str) else list(prompts)
    if several and isinstance(several[0], (Integral, Mapping)):
        several = [several]
    several = [tokens_of(model, p, tools, variables) for p in several]
    return _forerun.certify(model, drafter_of(model, drafter), several, tokens, per_prompt,
                            options_of(GenerateOptions, options, fields))
