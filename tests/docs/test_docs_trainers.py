"""Every cell of the trainers' table names a test that exists, with the parameters that it has."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "trainers"
NAMED = re.compile(r"`(?:(test_\w+\.py|…)::(\w+))?(?:…)?(?:\[([\w-]+)\])?`")


def parameters_of(file, name):
    """What the test of this name is tried with; fails when there is no such test."""
    found = [node for node in ast.parse(file.read_text()).body if getattr(node, "name", "") == name]
    assert found, f"docs/trainers.md: {file.name} has no {name}"
    assert isinstance(found[0], ast.FunctionDef)
    marks = [mark for mark in found[0].decorator_list if isinstance(mark, ast.Call)]
    return {str(node.value) for mark in marks for node in ast.walk(mark.args[1]) if isinstance(node, ast.Constant)}


def test_every_cell_of_the_trainers_table_names_its_test():
    section = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8").split("\n## The table\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(lines) > 20
    file, name = "", ""
    for line in lines:
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        assert len(row) == 4, row
        assert all(row[1:]), row
        references = NAMED.findall(row[3])
        assert references or (name and row[3] == "the same"), row
        for a_file, a_name, parameter in references:
            file = file if a_file in ("", "…") else a_file
            name = a_name or name
            known = parameters_of(TESTS / file, name)
            assert not parameter or known.issuperset(parameter.split("-")), (row, known)
