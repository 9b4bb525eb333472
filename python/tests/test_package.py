import ast
import pathlib

import forerun


def test_stubs_name_everything_that_the_module_has():
    folder = pathlib.Path(forerun.__file__).parent
    assert (folder / "py.typed").exists()
    for stub, module in (("__init__", forerun._forerun), ("law", forerun._forerun.law)):
        tree = ast.parse((folder / "_forerun" / f"{stub}.pyi").read_text())
        named = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        assert {name for name in vars(module) if not name.startswith("_") and name != "law"} <= named


def test_all_is_there():
    assert all(hasattr(forerun, name) for name in forerun.__all__)
