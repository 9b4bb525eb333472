"""Results and options are values: they go to other processes, are copied, and say what they are."""

import concurrent.futures
import copy
import multiprocessing
import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import forerun
from conftest import LLAMA, PROMPT

DRAFTED = {"fixed_draft": True, "max_draft": 4, "trace": True}


def fields_of(value):
    """All that can be read of a result."""
    if type(value).__module__ != "forerun._forerun":
        return value
    names = [n for n in dir(type(value)) if not n.startswith("_") and not callable(getattr(value, n))]
    assert names
    return {name: read(getattr(value, name)) for name in names}


def read(value):
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    return [fields_of(v) for v in value] if isinstance(value, list) else fields_of(value)


def come_back(value):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(value, protocol))
        assert type(back) is type(value) and fields_of(back) == fields_of(value) and repr(back) == repr(value)
    assert fields_of(copy.deepcopy(value)) == fields_of(copy.copy(value)) == fields_of(value)


@pytest.fixture(scope="module")
def out(model):
    return forerun.generate(model, PROMPT, "lookup", max_tokens=20, temperature=0.7, seed=9, **DRAFTED)


def test_texts_come_back_from_a_pickle(model, out):
    assert out.rounds and out.statistics.drafted
    for value in (out, out.statistics, out.rounds[0], model.score(model.encode(PROMPT), top=2)[0]):
        come_back(value)
    assert not pickle.loads(pickle.dumps(forerun.generate(model, PROMPT, None, max_tokens=2))).rounds


def test_certificates_come_back(model):
    law = forerun.certify(model, PROMPT, f"draft-model:{LLAMA}", tokens=40, temperature=1.0, rule="maximal", fixed_draft=True)
    come_back(law)
    come_back(law.report)
    come_back(forerun.certify(model, PROMPT, "lookup", tokens=20))


def test_events_come_back(model, dit):
    engine = forerun.Engine()
    engine.submit(model, PROMPT, "lookup", max_tokens=5, log_probabilities=1, **DRAFTED)
    engine.submit_image(dit, 1, previews=1, steps=5)
    seen = set()
    for event in engine:
        come_back(event)
        seen.add(type(event).__name__)
    assert seen == {"TextPiece", "TokenOutput", "RoundReport", "TextFinished", "ImagePreview", "ImageFinished"}


def test_images_come_back(dit, mar):
    for run in (forerun.generate_images(dit, [0, 1], "self", steps=5), forerun.generate_images(mar, [0], steps=4, pictures=False),
                forerun.generate_images(dit, [0], steps=3, pictures=False)):
        come_back(run)


def test_options_come_back():
    for options in (forerun.GenerateOptions(temperature=0.5, stop=["a", "b"], logit_bias={3: 1.5}, seed=2**64 - 1, rule="block"),
                    forerun.ImageOptions(steps=7, relaxation=[0.5], vae=pathlib.Path("v")),
                    forerun.TokenImageOptions(variance="beta", passes=3)):
        come_back(options)
        changed = copy.copy(options)
        changed.seed = 5
        assert options.seed != 5


def changed(state, place, to):
    members = list(state[1])
    members[place] = to(members[place]) if callable(to) else to
    return state[0], tuple(members)


@pytest.mark.parametrize("change", [
    lambda state: state[1],  # before there was a number
    lambda state: (state[0] + 1, state[1]),
    lambda state: ("1", state[1]),
    lambda state: (),
    lambda state: {"text": "a"},
    lambda state: (state[0], state[1][:-1]),
    lambda state: (state[0], (*state[1], 0)),
    lambda state: (state[0], None),
    lambda state: changed(state, 0, 3),  # the text
    lambda state: changed(state, 2, lambda statistics: statistics[:-1]),
    lambda state: changed(state, 7, 4),  # the finish, of four
    lambda state: changed(state, 8, 10),  # the rule, of ten
    lambda state: changed(state, 8, -1),
    lambda state: changed(state, -1, ()),  # the trace
])
def test_a_pickle_of_another_version_is_refused(out, change):
    state = out.__getstate__()
    again = type(out).__new__(type(out))
    again.__setstate__(state)
    assert fields_of(again) == fields_of(out)
    with pytest.raises(forerun.UsageError, match="^Generated: pickled by another version of forerun$"):
        type(out).__new__(type(out)).__setstate__(change(state))


def test_a_certificate_of_another_version_is_refused(model):
    certificate = forerun.certify(model, PROMPT, "lookup", tokens=4)
    with pytest.raises(forerun.UsageError, match="^Certificate: pickled by another version"):
        forerun.Certificate.__new__(forerun.Certificate).__setstate__(changed(certificate.__getstate__(), 0, 3))


def answer(path, prompt, options):
    forerun.set_threads(1)
    return forerun.generate(forerun.Model(path, "f32"), prompt, "lookup", options=options)


def fail(path):
    forerun.Model(path, "f16")


def test_a_pool_of_processes_takes_options_and_gives_results(model):
    options = forerun.GenerateOptions(max_tokens=8, temperature=0.7, seed=3)
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        there = pool.submit(answer, LLAMA, PROMPT, options).result()
        with pytest.raises(forerun.UsageError, match="f16"):
            pool.submit(fail, LLAMA).result()
    here = forerun.generate(model, PROMPT, None, options=options)
    assert there.tokens == here.tokens and str(there) == here.text


def test_results_say_what_they_are(model, dit, mar, out):
    short = forerun.generate(model, PROMPT, None, max_tokens=3, seed=9, temperature=0.7)
    assert repr(short).startswith(f"Generated({short.text!r}, 3 tokens, finish='length', rule='shared-noise', exact=True, seed=9, tau=")
    assert repr(out.statistics).startswith(f"Statistics(rounds={out.statistics.rounds}, outputs=20, drafted=")
    assert repr(out.rounds[0]).startswith("RoundTrace(drafts=[")
    long = forerun.generate(model, PROMPT, None, max_tokens=150, ignore_end=True)
    assert len(long.text) > 80 and repr(long).startswith(f"Generated({long.text[:80]!r}..., 150 tokens")
    assert repr(model.score([1, 2])[0]).startswith("TokenScore(token=2, log_probability=-")
    run = forerun.generate_images(dit, [0, 1], steps=3)
    assert repr(run).startswith(f"ImageRun(2 images, {dit.side}x{dit.side}, exact=True, seed=0, efficiency=1.00")
    assert re.fullmatch(r"DiffusionModel\('.*reference_pixel', precision='f32'\)", repr(dit))
    assert repr(mar).startswith("TokenImageModel(") and repr(forerun.ImageDrafter("self", mar)) == "ImageDrafter('self')"
    certificate = forerun.certify(model, PROMPT, "lookup", tokens=4)
    assert repr(certificate.report).startswith("CertificateReport(outputs=0, drafted=0, z=0.00, ")


def test_a_text_formats_as_a_str(out):
    width = len(out.text) + 5
    assert f"{out:>{width}}" == "     " + out.text and f"{out}" == f"{out!s}" == out.text and f"{out:.3}" == out.text[:3]
    with pytest.raises(ValueError):
        f"{out:d}"


def test_version():
    settings = (pathlib.Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    assert f'\nversion = "{forerun.__version__}"\n' in settings


def test_version_without_the_metadata(tmp_path):
    for entry in pathlib.Path(forerun.__file__).parents[1].iterdir():
        if not re.fullmatch(r"forerun-.*\.dist-info", entry.name):
            (tmp_path / entry.name).symlink_to(entry)
    script = ("import sys\n"
              "sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
              "sys.path.append(sys.argv[1])\n"
              "import forerun\n"
              "print(forerun.__version__, forerun.__file__)")
    done = subprocess.run([sys.executable, "-I", "-c", script, tmp_path], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == [forerun.__version__, str(tmp_path / "forerun" / "__init__.py")], done.stderr
