"""Training from Python: what the calls take, report and leave behind. Tiny models, a few steps."""

import json
import pathlib
import shutil
import sys

import pytest

import forerun
from conftest import LLAMA, ticks_during

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from pictures import write_data  # noqa: E402

MAR = {"hidden": 32, "heads": 2, "depth": 1, "head_width": 32, "head_blocks": 1, "steps": 3, "batch": 8, "micro_batch": 8,
       "bf16": False, "threads": 1, "evaluate_steps": 2, "seed": 3}
CHAT_TEMPLATE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                 "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
TIDAR = {"rank": 4, "markov_rank": 2, "batch": 2, "micro_batch": 2, "steps": 2, "bf16": False, "threads": 1}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images") / "data"
    write_data(str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(LLAMA / name, folder)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return forerun.Model(str(folder), "f32")


def losses(out):
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "step" in line and "loss" in line]


def test_a_run_reports_its_steps_and_its_result_samples(images, tmp_path):
    steps, held_out = [], []
    report = forerun.train_mar(images, str(tmp_path / "mar"), on_step=steps.append, on_held_out=held_out.append, **MAR)
    assert [s["step"] for s in steps] == [1, 2, 3] and report["end"] == "done" and report["step"] == 3
    assert [s["loss"] for s in steps] == losses(tmp_path / "mar")
    assert held_out[0]["step"] == 0 and report["held_out"]["step"] == 3
    model = forerun.load_image_model(str(tmp_path / "mar"))
    assert forerun.generate_images(model, [0], steps=4).images.shape[0] == 1


def test_an_exception_ends_a_run_with_a_checkpoint_and_the_same_call_goes_on(images, tmp_path):
    whole = []
    forerun.train_mar(images, str(tmp_path / "whole"), on_step=lambda s: whole.append(s["loss"]), **MAR)

    def stop(step):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        forerun.train_mar(images, str(tmp_path / "parts"), on_step=stop, **MAR)
    rest = []
    report = forerun.train_mar(images, str(tmp_path / "parts"), on_step=lambda s: rest.append(s["loss"]), **MAR)
    assert 1 <= report["resumed_from"] < 3 and rest == whole[report["resumed_from"]:]


def test_what_is_wrong_is_named(images, tmp_path):
    for wrong, named in (({"stepz": 1}, "no option 'stepz'"), ({"steps": "many"}, "steps"), ({"on_step": 3}, "on_step")):
        with pytest.raises(forerun.UsageError, match=named):
            forerun.train_mar(images, str(tmp_path / "m"), **{**MAR, **wrong})
    with pytest.raises(forerun.FormatError, match="nowhere"):
        forerun.train_mar(str(tmp_path / "nowhere"), str(tmp_path / "m"), **MAR)


def test_answers_become_adapters_that_leave_greedy_text_as_it_is(chat_model, tmp_path):
    seen = []
    written = forerun.distill(chat_model, [f"question {i}" for i in range(6)], str(tmp_path / "answers"),
                              options=forerun.GenerateOptions(max_tokens=12, batch_size=2),
                              on_progress=lambda *now: seen.append(now))
    assert written["documents"] == 6 and all(done <= of == 6 for done, of, *_ in seen) and len(seen) > 1
    report = forerun.train_tidar(chat_model, [str(tmp_path / "answers")], str(tmp_path / "adapters"), **TIDAR)
    assert report["end"] == "done"
    plain = forerun.generate(chat_model, "question 1", max_tokens=12)
    drafted = forerun.generate(chat_model, "question 1", drafter=f"tidar:{tmp_path / 'adapters'}", max_tokens=12)
    assert drafted.tokens == plain.tokens
    assert forerun.train_ngram([str(tmp_path / "answers")], str(tmp_path / "trigrams.arpa"))["documents"] == 6
    assert ticks_during(lambda: forerun.train_ngram([str(tmp_path / "answers")] * 2000, str(tmp_path / "many.arpa"))) > 1


def test_auto_drafts_from_answers_beside_the_model(chat_model):
    assert forerun.Drafter("auto", chat_model).parts == ["lookup", "recycling"]
    written = forerun.distill(chat_model, ["question 1"], options=forerun.GenerateOptions(max_tokens=12, temperature=0.0))
    drafter = forerun.Drafter("auto", chat_model)
    assert drafter.left_out == ""
    assert drafter.name == "auto" and drafter.parts == ["lookup", "recycling", "sam:" + written["folder"]]
    asked = [{"role": "user", "content": "question 1"}]
    plain = forerun.generate(chat_model, asked, None, max_tokens=12, temperature=0.0)
    drafted = forerun.generate(chat_model, asked, drafter, max_tokens=12, temperature=0.0, fixed_draft=True)
    assert drafted.tokens == plain.tokens and drafted.statistics.tau > 2
    (pathlib.Path(written["folder"]) / "distill.json").write_text("{")
    assert "distill.json" in forerun.Drafter("auto", chat_model).left_out
    shutil.rmtree(written["folder"])


def test_help_names_every_option():
    assert "hidden: int | None = 192" in forerun.train_mar.__nb_signature__[0][0]
    for name in ("train_dflash", "train_dlm", "train_tidar", "train_tidar_model", "train_dit", "train_free", "train_mar",
                 "train_cspd", "train_classifier", "train_medusa"):
        assert "checkpoint_seconds" in getattr(forerun, name).__doc__
