"""Texts: what the module's functions take, made from what is convenient."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from . import _forerun
from ._forerun import Certificate, Drafter, GenerateOptions, Generated, Model

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""A text, its tokens, or a conversation: [{"role": "user", "content": "..."}]."""


def tokens_of(model: Model, prompt: Prompt) -> list[int]:
    """The tokens of a prompt; a conversation is put into the model's chat format."""
    if isinstance(prompt, str):
        return model.encode(prompt)
    _refuse_what_is_no_prompt(prompt)
    turns: list[Any] = list(prompt)
    if turns and isinstance(turns[0], Mapping):
        return model.encode_chat(turns)
    return [operator.index(token) for token in turns]


def _refuse_what_is_no_prompt(prompt: object) -> None:
    """Of what can be iterated over, and is not meant so."""
    if isinstance(prompt, (bytes, bytearray, memoryview, Mapping)):
        raise TypeError(f"a prompt is a str, tokens, or a list of messages, not {type(prompt).__name__}: decode bytes "
                        "first, put a message into a list")


def drafter_of(model: Model, drafter: Drafter | str | None) -> Drafter:
    return drafter if isinstance(drafter, Drafter) else Drafter(drafter or "none", model)


def options_of(kind: type, options: Any, fields: dict[str, Any]) -> Any:
    if options is None:
        return kind(**fields)
    if fields:
        raise TypeError(f"give {kind.__name__} or its fields ({', '.join(fields)}), not both")
    return options


def generate(model: Model, prompt: Prompt, drafter: Drafter | str | None = "auto", *,
             on_text: Callable[[str], object] | None = None, options: GenerateOptions | None = None,
             **fields: Any) -> Generated:
    """Generates one text. `fields` are those of GenerateOptions.

    A Drafter keeps what it learned for the next call; its name makes a new one.
    `on_text` gets finished characters; what it raises ends the text and is raised here.
    """
    return _forerun.generate(model, drafter_of(model, drafter), tokens_of(model, prompt),
                             options_of(GenerateOptions, options, fields), on_text)


def generate_batch(model: Model, prompts: Iterable[Prompt], drafter: Drafter | str | None = "auto", *,
                   options: GenerateOptions | None = None, **fields: Any) -> list[Generated]:
    """Generates a text for every prompt in one batch; the i-th draws the random numbers of request + i."""
    _refuse_what_is_no_prompt(prompts)
    if isinstance(prompts, str):
        raise TypeError("a batch has several prompts: put a str into a list, or call generate")
    return _forerun.generate_batch(model, drafter_of(model, drafter), [tokens_of(model, p) for p in prompts],
                                   options_of(GenerateOptions, options, fields))


def certify(model: Model, prompts: Prompt | Iterable[Prompt], drafter: Drafter | str | None = "auto", *,
            tokens: int = 1024, per_prompt: int = 128, options: GenerateOptions | None = None,
            **fields: Any) -> Certificate:
    """Generates up to `tokens` outputs and scores them again by plain passes of the target."""
    _refuse_what_is_no_prompt(prompts)
    several: list[Any] = [prompts] if isinstance(prompts, str) else list(prompts)
    if several and isinstance(several[0], (Integral, Mapping)):
        several = [several]
    return _forerun.certify(model, drafter_of(model, drafter), [tokens_of(model, p) for p in several], tokens,
                            per_prompt, options_of(GenerateOptions, options, fields))
