"""What options take: None for the default, the forms that other libraries have, and a hint where a name is theirs."""

import asyncio
import pickle

import pytest

import forerun
from conftest import PROMPT

ALL_NONE = dict.fromkeys(["temperature", "top_k", "top_p", "min_p", "logit_bias", "presence_penalty", "rule", "max_draft",
                          "fixed_draft", "max_tokens", "request", "stop", "ignore_end", "trace", "batch_size"])


def test_none_is_the_default():
    assert repr(forerun.GenerateOptions(**ALL_NONE)) == repr(forerun.GenerateOptions())
    options = forerun.GenerateOptions(max_tokens=5, stop=["a"], temperature=1.0)
    options.max_tokens = options.stop = options.temperature = None
    assert repr(options) == repr(forerun.GenerateOptions())
    assert repr(forerun.ImageOptions(steps=None, vae=None, rule=None)) == repr(forerun.ImageOptions())
    assert repr(forerun.TokenImageOptions(variance=None)) == repr(forerun.TokenImageOptions())


def test_training_takes_none_for_the_default(tmp_path):
    with pytest.raises(forerun.FormatError, match="nowhere"):  # after the options
        forerun.train_mar(tmp_path / "nowhere", tmp_path / "out", steps=None, seed=None, bf16=None, init=None)


def test_stop_may_be_one_string(model):
    assert forerun.GenerateOptions(stop="end").stop == ["end"]
    whole = forerun.generate(model, PROMPT, None, max_tokens=20)
    stop = whole.text[5:7]
    cut = forerun.generate(model, PROMPT, None, max_tokens=20, stop=stop)
    assert cut.text == whole.text[:whole.text.index(stop)] and cut.finish == "stop-string"
    for wrong in (3, [3], b"end", [b"end"]):
        with pytest.raises(forerun.UsageError, match=r"is no str \| Sequence\[str\]"):
            forerun.GenerateOptions(stop=wrong)


def test_top_k_below_zero_is_off():
    assert forerun.GenerateOptions(top_k=-1).top_k == 0
    with pytest.raises(forerun.UsageError, match="top_k: -2 is no int from 0 on"):
        forerun.GenerateOptions(top_k=-2)


SAMPLED = {"max_tokens": 12, "temperature": 1.0, "ignore_end": True}


def test_a_drawn_seed_is_told_and_makes_the_text_again(model):
    drawn = [forerun.generate(model, PROMPT, "lookup", seed=None, **SAMPLED) for _ in range(3)]
    assert len({out.seed for out in drawn}) == 3 and len({tuple(out.tokens) for out in drawn}) == 3
    for out in drawn:
        assert 0 < out.seed < 2**53 and forerun.generate(model, PROMPT, None, seed=out.seed, **SAMPLED).tokens == out.tokens
    assert forerun.generate(model, PROMPT, None, **SAMPLED).seed == 0


def test_options_draw_their_seed_once(model):
    options = forerun.GenerateOptions(seed=None, **SAMPLED)
    first = forerun.generate(model, PROMPT, None, options=options)
    assert first.seed == options.seed == pickle.loads(pickle.dumps(options)).seed
    assert forerun.generate(model, PROMPT, None, options=options).tokens == first.tokens
    options.seed = None
    assert options.seed != first.seed


def test_a_batch_and_a_certificate_tell_a_drawn_seed(model):
    batch = forerun.generate_batch(model, [PROMPT] * 3, None, seed=None, **SAMPLED)
    assert len({out.seed for out in batch}) == 1 and len({tuple(out.tokens) for out in batch}) == 3
    certificate = forerun.certify(model, PROMPT, "lookup", tokens=4, seed=None)
    assert certificate.seed > 0 and f"seed={certificate.seed})" in repr(certificate)


def test_an_engine_tells_the_seed(model, dit):
    engine = forerun.Engine()
    engine.submit(model, PROMPT, "lookup", seed=None, **SAMPLED)
    engine.submit(model, PROMPT, None, rule="typical", max_tokens=3, temperature=1.0)
    engine.submit_image(dit, 1, seed=None, steps=3)
    events = list(engine)
    drawn, inexact = sorted((e for e in events if isinstance(e, forerun.TextFinished)), key=lambda e: e.id)
    assert forerun.generate(model, PROMPT, None, seed=drawn.result.seed, **SAMPLED).tokens == drawn.result.tokens
    assert drawn.result.seed > 0 and drawn.result.exact and drawn.result.rule == "shared-noise"
    assert isinstance(drawn.result, forerun.Generated) and str(drawn.result) == drawn.result.text
    assert not inexact.result.exact and inexact.result.rule == "typical" and inexact.result.seed == 0
    image, = (e for e in events if isinstance(e, forerun.ImageFinished))
    again = forerun.generate_images(dit, [1], seed=image.seed, steps=3)
    assert again.seed == image.seed > 0 and (again.values[0] == image.values).all()
    assert forerun.certify_images(dit, [0], "frozen", counterfactuals=0, seed=None, steps=3).seed > 0


def test_distilling_tells_the_seed(model, tmp_path):
    with pytest.raises(forerun.UsageError, match="chat"):  # the model has no chat format
        forerun.distill(model, ["a"], tmp_path / "answers", options=forerun.GenerateOptions(seed=None))


@pytest.mark.parametrize("name, hint", [
    ("max_new_tokens", r"no option 'max_new_tokens': it is max_tokens here\. There are temperature, top_k, "),
    ("temp", "it is temperature here"),
    ("ignore_eos", "it is ignore_end here"),
    ("repeat_penalty", "it is repetition_penalty here"),
    ("num_speculative_tokens", "it is max_draft here"),
    ("do_sample", "'do_sample': a temperature above 0 samples, 0 is greedy. There are"),
    ("num_return_sequences", "give generate_batch the prompt so many times"),
    ("n", "give generate_batch the prompt so many times"),
    ("stream", "generate has on_text"),
    ("logprobs", "Engine.submit has log_probabilities"),
    ("draft_model", "name a drafter, as drafter='draft-model:PATH'"),
    ("max_tokenz", r"did you mean max_tokens\? There are"),
    ("tempreature", r"did you mean temperature\?"),
    ("log_probability", r"did you mean log_probabilities of Engine.submit\?"),
    ("log_probabilities", "it is an argument of Engine.submit; there are"),
    ("xyzzy", "no option 'xyzzy'; there are temperature, top_k, "),
])
def test_an_unknown_name_gets_a_hint(model, name, hint):
    with pytest.raises(forerun.UsageError, match=hint):
        forerun.generate(model, PROMPT, None, **{name: 3})
    with pytest.raises(forerun.UsageError, match=hint):
        forerun.GenerateOptions(**{name: 3})


@pytest.mark.parametrize("name", ["response_format", "structured_outputs", "guided_decoding", "json_mode", "grammar"])
def test_what_holds_a_schema_elsewhere_is_told_where_the_schema_goes(name):
    with pytest.raises(forerun.UsageError, match=f"no option '{name}': json_schema takes the schema itself.*regex an expression"):
        forerun.GenerateOptions(**{name: {"type": "json_object"}})
    with pytest.raises(forerun.UsageError, match="it is json_schema here"):
        forerun.GenerateOptions(guided_json={"type": "object"})


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RecursionError])
def test_what_says_nothing_about_an_option_is_raised_as_it_is(error):
    class Stopped:
        def __index__(self):
            raise error

    for name in ("max_tokens", "top_k", "seed"):
        with pytest.raises(error):
            forerun.GenerateOptions(**{name: Stopped()})


def test_hints_are_of_the_options_at_hand(mar, tmp_path):
    with pytest.raises(forerun.UsageError, match="it is steps here"):
        forerun.generate_images(mar, [0], num_inference_steps=3)
    with pytest.raises(forerun.UsageError, match=r"no option 'max_new_tokens'; there are steps"):
        forerun.generate_images(mar, [0], max_new_tokens=3)
    with pytest.raises(forerun.UsageError, match="it is learning_rate here"):
        forerun.train_mar(tmp_path, tmp_path, lr=1e-3)


def test_hints_name_what_is_there():
    from forerun import _names
    text, image, token = ([n for n in dir(kind) if not n.startswith("_")]
                          for kind in (forerun.GenerateOptions, forerun.ImageOptions, forerun.TokenImageOptions))
    training = [line.split(":")[0].strip() for line in forerun.train_mar.__doc__.splitlines() if line.startswith("    ")]
    assert set(_names._ELSEWHERE.values()) <= {*text, *image, *token, *training}
    assert not {*_names._ADVICE, *_names._OF_TEXTS} & {*text, *_names._ELSEWHERE}


def test_an_engine_for_asyncio_takes_the_arguments_of_an_engine():
    async def main():
        async with forerun.AsyncEngine(max_active=1, kv_bytes=1 << 30, max_prefixes=0):
            pass
        with pytest.raises(TypeError, match="max_activ"):
            forerun.AsyncEngine(max_activ=1)

    asyncio.run(main())
