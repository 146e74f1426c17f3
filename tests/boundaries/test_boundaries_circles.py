"""No module or folder imports itself through others; lazy and type-only imports count."""

from __future__ import annotations

import pytest

from tools import structure


def test_no_circle_is_left() -> None:
    modules = structure.read_modules(structure.ROOT)
    graph = {name: structure.imports_of(module, modules) for name, module in modules.items()}
    assert len(graph) > 300  # the product code was found
    assert structure.circles(graph) == []
    assert structure.folder_circles(graph) == []


def test_lazy_and_type_only_imports_make_circles() -> None:
    texts = {
        "mansard.a.one": "def late():\n    from mansard.a.two import x",
        "mansard.a.two": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mansard.a.three"
        ),
        "mansard.a.three": "from mansard.a import one",
    }
    modules = structure.parse_modules(texts)
    graph = {name: structure.imports_of(module, modules) for name, module in modules.items()}
    (circle,) = structure.circles(graph)
    assert set(circle) == set(texts)


@pytest.mark.parametrize("folder", ["b.c", "b.d"])
def test_folders_can_be_a_circle_where_modules_are_none(folder: str) -> None:
    graph = {
        "mansard.b.c.one": {"mansard.b.d.one"},
        "mansard.b.d.one": set(),
        "mansard.b.d.two": {"mansard.b.c.two"},
        "mansard.b.c.two": set(),
    }
    assert structure.circles(graph) == []
    (circle,) = structure.folder_circles(graph)
    assert f"mansard.{folder}" in circle
