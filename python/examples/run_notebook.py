#!/usr/bin/env python3
"""Runs a notebook's code cells in order, in one namespace, without Jupyter.

usage: run_notebook.py NOTEBOOK.ipynb [--write]     --write: puts what the cells print and return into the file

A cell that raises ends the run: the error names the cell, and the file stays as it was.
"""

import ast
import base64
import contextlib
import io
import json
import os
import pathlib
import sys


def run_cell(source: str, name: str, namespace: dict) -> tuple[str, object]:
    """What a cell prints, and the value of its last line if that is an expression, else None."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), name, "eval"), namespace) if last else None
    return printed.getvalue(), value


def outputs_of(printed: str, value: object, number: int) -> list[dict]:
    """The cell's `outputs` in the notebook format, version 4."""
    out = []
    if printed:
        out.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_png_"):
            data = {"image/png": base64.b64encode(value._repr_png_()).decode(), **data}
        out.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return out


def run(path: pathlib.Path, write: bool = False) -> dict:
    """Runs a notebook in its folder; the namespace after the last cell."""
    notebook = json.loads(path.read_text())
    namespace = {"__name__": "__main__"}
    with contextlib.chdir(path.parent):
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, cell in enumerate(code, 1):
            name = f"{path.name}, code cell {number}"
            printed, value = run_cell("".join(cell["source"]), name, namespace)
            cell.update(execution_count=number, outputs=outputs_of(printed, value, number))
    if write:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        os.replace(part, path)
    return namespace


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--write"]):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        sys.exit(2)
    run(pathlib.Path(sys.argv[1]).resolve(), write=len(sys.argv) > 2)
