"""What modules import on first use stands in their stubs, which the import rules do not read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUBS = {path.relative_to(ROOT).as_posix(): path for path in ROOT.glob("*/src/mansard/*/**/*.pyi")}


def test_stubs_are_where_names_are_lazy() -> None:
    lazy = {
        path.with_suffix(".pyi").relative_to(ROOT).as_posix()
        for path in ROOT.glob("*/src/mansard/**/*.py")
        if "= lazy_names(" in path.read_text(encoding="utf-8")
    }
    assert lazy == STUBS.keys()


@pytest.mark.parametrize("name", sorted(STUBS))
def test_a_stub_names_nothing_above_it(name: str) -> None:
    modules = {
        str(node.module)
        for node in ast.parse(STUBS[name].read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
    }
    above = {"api": ("mansard.cli",)}.get(
        name.partition("/")[0], ("mansard.cli", "mansard.api", "mansard.sweeps")
    )
    assert modules
    assert not [module for module in modules if module.startswith(above)]
