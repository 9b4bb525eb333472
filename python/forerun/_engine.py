"""Many requests at once."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from . import _forerun
from ._fields import AnyImageOptions, ImageFields, TextFields, Tools, Unpack, Variables
from ._forerun import Drafter, GenerateOptions, ImageDrafter, ImageModel, Model
from ._image import drafter_and_options
from ._text import Prompt, drafter_of, options_of, tokens_of

Event = (_forerun.TextPiece | _forerun.TokenOutput | _forerun.RoundReport | _forerun.Waiting | _forerun.TextFinished
         | _forerun.ImagePreview | _forerun.ImageFinished | _forerun.Failed)
"""What a step reports. Every event has the `id` of its request."""

LAST = (_forerun.TextFinished, _forerun.ImageFinished, _forerun.Failed)
"""Events after which a request has no others."""


class Engine:
    """Texts and images of many requests, each with its own options: submit, then iterate over events.

        engine = forerun.Engine()
        engine.submit(model, "Once upon a time", max_tokens=64)
        for event in engine:
            print(event.id, event)

    `max_active` requests of a model run at a time (0: all that fit), their keys and values take `kv_bytes` (0: no limit),
    those of `max_prefixes` ended texts are kept for texts that begin alike. Any thread may call it; calls take turns.
    """

    def __init__(self, max_active: int = 0, kv_bytes: int = 0, max_prefixes: int = 64):
        self._engine = _forerun.Engine(max_active, kv_bytes, max_prefixes)
        self._left: deque[Event] = deque()  # of the last step of a loop that was left before their turn

    def submit(self, model: Model, prompt: Prompt, drafter: Drafter | str | None = "auto", *,
               log_probabilities: int | None = None, tools: Tools = None, variables: Variables = None,
               options: GenerateOptions | None = None, **fields: Unpack[TextFields]) -> int:
        """A text; returns the request's id. `fields` are those of GenerateOptions.

        `tools` and `variables` go to the chat format of a conversation, as those of Model.encode_chat.
        `log_probabilities`: report every output with its own, and with this many of the likeliest tokens.
        Requests share what they learn about drafts if they are given one Drafter; its name makes a new one.
        """
        return self._engine.submit(model, drafter_of(model, drafter), tokens_of(model, prompt, tools, variables),
                                   options_of(GenerateOptions, options, fields), log_probabilities)

    def submit_image(self, model: ImageModel, label: int, drafter: ImageDrafter | str | None = "none", *,
                     previews: int = 0, options: AnyImageOptions | None = None, **fields: Unpack[ImageFields]) -> int:
        """An image of a class; returns the request's id. About `previews` predictions are reported."""
        drafter, options = drafter_and_options(model, drafter, options, fields)
        submit: Any = self._engine.submit  # one of two kinds
        return submit(model, drafter, label, options, previews)

    def step(self) -> list[Event]:
        """One round of everything that runs; its events, after those that a loop over the engine left behind."""
        events = self._engine.step()
        return [*self._undelivered(), *events]

    def cancel(self, request: int) -> None:
        """Ends a request with what it has; unknown and finished ones are ignored."""
        self._engine.cancel(request)

    @property
    def busy(self) -> bool:
        """Something runs or waits, or has events that no one got."""
        return bool(self._left) or self._engine.busy

    def kv_bytes(self, model: Model) -> int:
        """Bytes of keys and values that the model's texts hold."""
        return self._engine.kv_bytes(model)

    def __iter__(self) -> Iterator[Event]:
        """Events of all requests until nothing is left; requests may be added meanwhile.

        A loop that is left early loses no events: the next one, or `step`, has them.
        """
        while self.busy:
            if not self._left:
                self._left.extend(self._engine.step())
            yield from self._undelivered()

    def _undelivered(self) -> Iterator[Event]:
        while True:
            try:
                event = self._left.popleft()
            except IndexError:  # none, or another thread has it
                return
            yield event
