"""Paths are str or os.PathLike, everywhere."""

import ast
import os
import pathlib

import pytest

import forerun
from conftest import DIT, LLAMA, MAR
from test_train import MAR as TINY_MAR, chat_model, images  # noqa: F401, fixtures


class Place:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


def test_models_are_loaded_from_paths_of_any_kind():
    for path in (LLAMA, Place(str(LLAMA))):
        model = forerun.Model(path, "f32")
        assert model.path == str(LLAMA) and repr(model) == f"Model({str(LLAMA)!r}, precision='f32')"
    assert forerun.DiffusionModel(DIT).path == str(DIT) and forerun.TokenImageModel(MAR).path == str(MAR)
    assert isinstance(forerun.load_image_model(Place(str(MAR))), forerun.TokenImageModel)


@pytest.mark.parametrize("wrong", [3, None, b"model", Place(b"model"), ["model"], "a\0b"])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(TypeError):
        forerun.Model(wrong)


def test_a_name_in_other_bytes_than_utf8(tmp_path):
    folder = tmp_path / os.fsdecode(b"m\xff")
    folder.symlink_to(LLAMA)
    model = forerun.Model(folder, "f32")
    assert model.path == str(folder) and repr(str(folder)) in repr(model)


def test_options_take_paths():
    assert forerun.ImageOptions(vae=pathlib.Path("a") / "b").vae == os.path.join("a", "b")
    with pytest.raises(forerun.UsageError, match="vae: 3 is no path"):
        forerun.ImageOptions(vae=3)


def test_training_takes_paths(images, chat_model, tmp_path):  # noqa: F811
    forerun.train_mar(pathlib.Path(images), tmp_path / "mar", **TINY_MAR)
    forerun.train_mar(pathlib.Path(images), tmp_path / "more", init=tmp_path / "mar", **TINY_MAR)
    with pytest.raises(forerun.UsageError, match="init: 3 is no path"):
        forerun.train_mar(images, tmp_path / "wrong", init=3, **TINY_MAR)
    written = forerun.distill(chat_model, ["a b c"], tmp_path / "answers", options=forerun.GenerateOptions(max_tokens=4))
    assert written["folder"] == str(tmp_path / "answers")
    assert forerun.train_ngram([tmp_path / "answers"], tmp_path / "grams.arpa")["documents"] == 1


def test_the_stub_says_so():
    stub = ast.parse((pathlib.Path(forerun.__file__).parent / "_forerun" / "__init__.pyi").read_text())
    assert any(isinstance(node, ast.Import) and node.names[0].name == "os" for node in stub.body)
    functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    paths = {"data", "out", "init", "vae", "state_store"}
    for name, function in functions.items():
        if not name.startswith("train_") and name != "distill":
            continue
        for argument in [*function.args.args, *function.args.kwonlyargs]:
            if argument.arg in paths:
                assert "os.PathLike[str]" in ast.unparse(argument.annotation), (name, argument.arg)
