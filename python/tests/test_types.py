"""What type checkers see: the keywords of calls by name and type."""

import ast
import builtins
import inspect
import pathlib
import typing

import pytest

import forerun
from forerun import _fields

PACKAGE = pathlib.Path(forerun.__file__).parent


def classes_of(file):
    return {node.name: node for node in ast.parse((PACKAGE / file).read_text()).body if isinstance(node, ast.ClassDef)}


def constructed(kind):
    """The keywords of a class of the module, as its stub has them."""
    init, = (n for n in classes_of("_forerun/__init__.pyi")[kind].body if getattr(n, "name", "") == "__init__")
    return {argument.arg: ast.unparse(argument.annotation) for argument in init.args.kwonlyargs}


def typed(kind):
    body = classes_of("_fields.py")[kind].body
    return {node.target.id: ast.unparse(node.annotation) for node in body if isinstance(node, ast.AnnAssign)}


def test_fields_are_those_of_the_options():
    assert typed("TextFields") == constructed("GenerateOptions")
    assert typed("ImageFields") == constructed("ImageOptions") | constructed("TokenImageOptions")


def test_stubs_import_what_they_name():
    for name in ("__init__", "law"):
        stub = ast.parse((PACKAGE / "_forerun" / f"{name}.pyi").read_text())
        there = {(a.asname or a.name).split(".")[0] for n in stub.body if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
        there |= {n.name for n in stub.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))} | set(dir(builtins))
        annotations = [n.annotation for n in ast.walk(stub) if isinstance(n, ast.arg) and n.annotation]
        annotations += [n.returns for n in ast.walk(stub) if isinstance(n, ast.FunctionDef) and n.returns]
        names = {n.id for annotation in annotations for n in ast.walk(annotation) if isinstance(n, ast.Name)}
        assert names <= there


@pytest.mark.parametrize("call, fields", [
    (forerun.generate, "TextFields"), (forerun.generate_batch, "TextFields"), (forerun.certify, "TextFields"),
    (forerun.Engine.submit, "TextFields"), (forerun.AsyncEngine.text, "SubmitFields"),
    (forerun.AsyncEngine.events, "SubmitFields"), (forerun.generate_images, "ImageFields"),
    (forerun.certify_images, "ImageFields"), (forerun.Engine.submit_image, "ImageFields"),
    (forerun.AsyncEngine.image_events, "SubmitImageFields"),
])
def test_calls_name_their_fields(call, fields):
    annotation = inspect.signature(call).parameters["fields"].annotation
    if hasattr(typing, "Unpack"):
        assert annotation == typing.Unpack[getattr(_fields, fields)]
    typing.get_type_hints(call)


def test_streams_take_what_an_engine_takes():
    for call, fields in ((forerun.Engine.submit, _fields.SubmitFields), (forerun.Engine.submit_image, _fields.SubmitImageFields)):
        own = {n for n, p in inspect.signature(call).parameters.items() if p.kind is p.KEYWORD_ONLY}
        assert own <= set(fields.__annotations__)
