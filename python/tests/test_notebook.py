import json
import pathlib
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import run_notebook  # noqa: E402


def notebook(path, *sources):
    cells = [{"cell_type": "code", "metadata": {}, "source": s, "outputs": [], "execution_count": None} for s in sources]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    return path


def test_cells_share_a_namespace_and_their_outputs_are_written(tmp_path):
    path = notebook(tmp_path / "a.ipynb", "x = 20\nprint('one')", "x + 1", "x += 1")
    assert run_notebook.run(path)["x"] == 21
    assert not any(cell["outputs"] for cell in json.loads(path.read_text())["cells"])
    run_notebook.run(path, write=True)
    outputs = [cell["outputs"] for cell in json.loads(path.read_text())["cells"]]
    assert outputs[0][0]["text"] == ["one\n"] and outputs[1][0]["data"] == {"text/plain": ["21"]} and outputs[2] == []


def test_a_cell_that_raises_is_named_and_nothing_is_written(tmp_path):
    path = notebook(tmp_path / "a.ipynb", "print(1)", "assert False")
    before = path.read_bytes()
    with pytest.raises(AssertionError) as error:
        run_notebook.run(path, write=True)
    assert any("a.ipynb, code cell 2" in str(entry.path) for entry in error.traceback)
    assert path.read_bytes() == before


def test_the_table_notebook_runs_and_its_rows_are_those_that_it_shows():
    """Texts equal and verdicts as claimed: the notebook asserts them."""
    table = run_notebook.run(EXAMPLES / "table.ipynb")["table"]
    shown = json.loads((EXAMPLES / "table.ipynb").read_text())["cells"][-1]["outputs"][0]["text"]
    assert len(table) == 19 and [row[0].split(",")[0] for row in table] == [line.split("  ")[0].split(",")[0] for line in shown[1:]]
