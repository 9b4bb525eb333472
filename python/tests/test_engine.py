import asyncio
import threading

import numpy as np
import pytest

import forerun
from conftest import PROMPT

OPTIONS = {"max_tokens": 60, "temperature": 0.7, "fixed_draft": True, "max_draft": 4}


def finished(events):
    return {e.id: e.result for e in events if isinstance(e, forerun.TextFinished)}


def test_events_of_texts_and_an_image_in_one_engine(model, dit):
    engine = forerun.Engine(max_prefixes=0)
    drafter = forerun.Drafter("lookup", model)
    ids = [engine.submit(model, PROMPT, drafter, request=i, log_probabilities=2, **OPTIONS) for i in range(3)]
    image = engine.submit_image(dit, 1, "none", previews=2, steps=20, guidance=1.0, seed=7)
    events = list(engine)
    assert not engine.busy and engine.step() == []
    texts = finished(events)
    for i, request in enumerate(ids):
        alone = forerun.generate(model, PROMPT, None, request=i, **OPTIONS)
        assert texts[request].tokens == alone.tokens
        assert "".join(e.text for e in events if isinstance(e, forerun.TextPiece) and e.id == request) == alone.text
        outputs = [e for e in events if isinstance(e, forerun.TokenOutput) and e.id == request]
        assert [e.token for e in outputs] == alone.tokens and all(len(e.top) == 2 for e in outputs)
        scores = model.score(model.encode(PROMPT) + alone.tokens)[-len(alone.tokens):]
        np.testing.assert_allclose([e.log_probability for e in outputs], [s.log_probability for s in scores], atol=1e-4)
    done, = (e for e in events if isinstance(e, forerun.ImageFinished))
    previews = [e for e in events if isinstance(e, forerun.ImagePreview)]
    assert done.id == image and done.complete and done.steps == 20 and len(previews) >= 2
    assert done.values.shape == previews[0].values.shape == (dit.channels, dit.side, dit.side)
    alone = forerun.generate_images(dit, [1], steps=20, guidance=1.0, seed=7)
    np.testing.assert_array_equal(done.values, alone.values[0])


def test_events_say_what_they_are(model):
    engine = forerun.Engine()
    engine.submit(model, PROMPT, "lookup", **OPTIONS)
    for event in engine:
        said = repr(event)
        assert said.startswith(type(event).__name__ + "(id=") and (
            not isinstance(event, forerun.TextPiece) or repr(event.text) in said)


def test_rounds_are_reported(model):
    engine = forerun.Engine()
    engine.submit(model, PROMPT, "lookup", trace=True, **OPTIONS)
    events = list(engine)
    rounds = [e.trace for e in events if isinstance(e, forerun.RoundReport)]
    result, = finished(events).values()
    assert [t for r in rounds for t in r.outputs] == result.tokens


def test_cancelled_requests_end(model):
    engine = forerun.Engine()
    stays, goes = (engine.submit(model, PROMPT, None, request=i, **OPTIONS) for i in range(2))
    engine.step()
    engine.cancel(goes)
    engine.cancel(12345)
    texts = finished(engine)
    assert texts[goes].finish == "interrupted" and len(texts[goes].tokens) < len(texts[stays].tokens)


def test_any_thread_may_submit(model):
    engine = forerun.Engine()
    alone = forerun.generate(model, PROMPT, None, **OPTIONS)
    threads = [threading.Thread(target=lambda: engine.submit(model, PROMPT, None, **OPTIONS)) for _ in range(4)]
    engine.submit(model, PROMPT, None, **OPTIONS)
    for thread in threads:
        thread.start()
    texts = finished(engine)
    for thread in threads:
        thread.join()
    texts |= finished(engine)
    assert [t.tokens for t in texts.values()] == [alone.tokens] * 5


def test_a_loop_that_is_left_loses_no_events(model):
    engine = forerun.Engine()
    request = engine.submit(model, PROMPT, None, log_probabilities=0, **OPTIONS)
    alone = forerun.generate(model, PROMPT, None, **OPTIONS)
    events = []
    while engine.busy:  # every loop takes one event
        for event in engine:
            events.append(event)
            break
    assert [e.token for e in events if isinstance(e, forerun.TokenOutput)] == alone.tokens
    assert finished(events)[request].tokens == alone.tokens
    engine.submit(model, PROMPT, None, log_probabilities=0, **OPTIONS)
    events = [next(iter(engine))]
    while engine.busy:
        events += engine.step()
    assert [e.token for e in events if isinstance(e, forerun.TokenOutput)] == alone.tokens


def test_streams_of_asyncio(model, dit):
    alone = [forerun.generate(model, PROMPT, None, request=i, **OPTIONS).text for i in range(3)]

    async def read(engine, request):
        return "".join([p async for p in engine.text(model, PROMPT, "lookup", request=request, **OPTIONS)])

    async def image(engine):
        return [e async for e in engine.image_events(dit, 1, steps=10, seed=7)][-1]

    async def main():
        async with forerun.AsyncEngine(max_prefixes=0) as engine:
            return await asyncio.gather(*(read(engine, i) for i in range(3)), image(engine))

    *texts, picture = asyncio.run(main())
    assert texts == alone and picture.complete


def test_a_closed_stream_cancels_and_errors_arrive(model):
    async def main():
        async with forerun.AsyncEngine() as engine:
            stream = engine.events(model, PROMPT, None, max_tokens=200, ignore_end=True)
            await anext(stream)
            await stream.aclose()
            with pytest.raises(forerun.UsageError, match="prompt"):
                await anext(engine.events(model, [], None))
            # The engine goes on, and closing it ends what runs.
            assert [p async for p in engine.text(model, PROMPT, None, max_tokens=3)]
            left = engine.events(model, PROMPT, None, max_tokens=200, ignore_end=True)
            await anext(left)
        return [e async for e in left][-1]

    assert asyncio.run(main()).result.finish == "interrupted"


class SlowPrompt:
    """Tokens that a submission gets when they are let go."""

    def __init__(self, model):
        self.tokens, self.asked, self.go = model.encode(PROMPT), threading.Event(), threading.Event()

    def __iter__(self):
        self.asked.set()
        assert self.go.wait(10)
        return iter(self.tokens)


LONG = {"max_tokens": 200, "ignore_end": True}


async def last_of(engine, *arguments):
    return [e async for e in engine.events(*arguments, **LONG)][-1]


async def until(holds):
    while not holds():
        await asyncio.sleep(0.001)


def test_a_stream_that_is_cancelled_while_its_submission_waits_leaves_no_request(model):
    prompt = SlowPrompt(model)

    async def main():
        async with forerun.AsyncEngine() as engine:
            reader = asyncio.create_task(last_of(engine, model, prompt, None))
            await until(prompt.asked.is_set)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            prompt.go.set()
            result = await last_of(engine, model, PROMPT, None)
            # An orphan would keep its stream and its place in the engine.
            await asyncio.wait_for(until(lambda: not engine._streams and not engine._engine.busy), 10)
            return result

    assert asyncio.run(main()).result.finish == "length"


def test_closing_cancels_what_is_being_submitted(model):
    prompt = SlowPrompt(model)

    async def main():
        engine = forerun.AsyncEngine()
        readers = [asyncio.create_task(last_of(engine, model, p, None)) for p in (prompt, PROMPT)]
        await until(prompt.asked.is_set)
        closing = [asyncio.create_task(engine.close()) for _ in range(2)]
        await asyncio.sleep(0)
        prompt.go.set()
        await asyncio.gather(*closing)
        with pytest.raises(RuntimeError, match="the engine is closed"):
            await last_of(engine, model, PROMPT, None)
        return await asyncio.gather(*readers)

    assert [last.result.finish for last in asyncio.run(main())] == ["interrupted"] * 2


def test_a_stream_may_be_closed_after_its_engine(model):
    async def main():
        async with forerun.AsyncEngine() as engine:
            stream = engine.events(model, PROMPT, None, **LONG)
            await anext(stream)
        await stream.aclose()
        await engine.close()

    asyncio.run(main())
