"""An engine for asyncio: one thread runs its steps, every request has its own stream of events."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._engine import LAST, Engine, Event
from ._fields import SubmitFields, SubmitImageFields, Unpack
from ._forerun import Drafter, ImageDrafter, Model, TextPiece
from ._image import ImageModel
from ._text import Prompt


class AsyncEngine:
    """Streams of one Engine, for one event loop.

        async with forerun.AsyncEngine() as engine:
            async for piece in engine.text(model, "Once upon a time", max_tokens=64):
                print(piece, end="")

    The arguments are those of Engine. A stream that is closed early cancels its request.
    """

    def __init__(self, max_active: int = 0, kv_bytes: int = 0, max_prefixes: int = 64):
        self._engine = Engine(max_active, kv_bytes, max_prefixes)
        # The engine's thread: steps and submissions take turns in it, so none blocks the loop.
        self._thread = ThreadPoolExecutor(1, "forerun-engine")
        self._streams: dict[int, asyncio.Queue] = {}
        self._steps: asyncio.Task | None = None
        self._closing: asyncio.Task | None = None
        self._closed = False  # the thread takes no calls

    async def __aenter__(self) -> "AsyncEngine":
        return self

    async def __aexit__(self, *_) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancels what runs, and waits for its end; a stream that begins later raises RuntimeError."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        # Submissions that wait come before it in the engine's thread; no stream begins any more.
        await self._run(self._cancel_all)
        await self._start()
        self._closed = True
        self._thread.shutdown()

    def events(self, model: Model, prompt: Prompt, drafter: Drafter | str | None = "auto",
               **fields: Unpack[SubmitFields]) -> AsyncGenerator[Event, None]:
        """The events of a text until its TextFinished or Failed. Arguments as of Engine.submit."""
        return self._stream(lambda: self._engine.submit(model, prompt, drafter, **fields))

    def image_events(self, model: ImageModel, label: int, drafter: ImageDrafter | str | None = "none",
                     **fields: Unpack[SubmitImageFields]) -> AsyncGenerator[Event, None]:
        """The events of an image until its ImageFinished or Failed. Arguments as of Engine.submit_image."""
        return self._stream(lambda: self._engine.submit_image(model, label, drafter, **fields))

    async def text(self, model: Model, prompt: Prompt, drafter: Drafter | str | None = "auto",
                   **fields: Unpack[SubmitFields]) -> AsyncGenerator[str, None]:
        """The pieces of a text."""
        stream = self.events(model, prompt, drafter, **fields)
        try:
            async for event in stream:
                if isinstance(event, TextPiece):
                    yield event.text
                elif hasattr(event, "message"):
                    raise RuntimeError(event.message)
        finally:
            await stream.aclose()

    async def _stream(self, submit: Callable[[], int]) -> AsyncGenerator[Event, None]:
        queue: asyncio.Queue = asyncio.Queue()

        def begin() -> int:
            request = submit()
            self._streams[request] = queue  # in the engine's thread: before any step reports it
            return request

        if self._closing is not None:
            raise RuntimeError("the engine is closed")
        submission = self._run(begin)
        try:
            request = await asyncio.shield(submission)
        except asyncio.CancelledError:  # the thread submits it all the same, and nobody reads it
            submission.add_done_callback(self._abandon)
            raise
        if self._closing is None:  # closing runs the steps itself
            self._start()
        event = None
        try:
            while not isinstance(event, LAST):
                event = await queue.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            self._streams.pop(request, None)
            if not isinstance(event, LAST) and not self._closed:
                await asyncio.shield(self._run(self._engine.cancel, request))

    def _abandon(self, submission: asyncio.Future) -> None:
        if submission.cancelled() or submission.exception() is not None:
            return
        self._streams.pop(submission.result(), None)
        if not self._closed:
            self._run(self._engine.cancel, submission.result())
        if self._closing is None:
            self._start()

    def _cancel_all(self) -> None:
        for request in list(self._streams):
            self._engine.cancel(request)

    def _start(self) -> asyncio.Task:
        """The task that makes steps while there is something to do."""
        if self._steps is None or self._steps.done():
            self._steps = asyncio.create_task(self._step())
        return self._steps

    async def _step(self) -> None:
        try:
            while await self._run(lambda: self._engine.busy):
                for event in await self._run(self._engine.step):
                    if queue := self._streams.get(event.id):
                        queue.put_nowait(event)
        except BaseException as error:  # no memory, or a loop that ends: no stream may wait for ever
            for queue in self._streams.values():
                queue.put_nowait(error)
            if not isinstance(error, Exception):
                raise

    def _run(self, call: Callable, *arguments: Any) -> asyncio.Future:
        return asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
