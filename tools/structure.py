"""Counts of the product code by room, and the circles between modules.

python tools/structure.py            the counts
python tools/structure.py --circles  every circle, lazy and type-only imports counted
python tools/structure.py --single   modules with exactly one importer
python tools/structure.py --twice    class names defined more than once
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHORT_LINES = 2  # of a function's body: shorter than the explanation of its name


@dataclass(frozen=True)
class Module:
    """One file of product code."""

    name: str
    tree: ast.Module
    lines: tuple[str, ...]

    @property
    def room(self) -> str:
        """The room that it belongs to."""
        return self.name.split(".")[1]

    @property
    def n_code_lines(self) -> int:
        """Lines that hold more than white space, a comment or a docstring."""
        documented: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0] if node.body else None
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                    documented |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        return sum(
            bool(line.strip()) and not line.lstrip().startswith("#") and number not in documented
            for number, line in enumerate(self.lines, 1)
        )


def read_modules(root: Path) -> dict[str, Module]:
    """All product modules below ``root`` by their names."""
    texts = {}
    for source in sorted(root.glob("*/src")):
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            texts[name] = path.read_text(encoding="utf-8")
    return parse_modules(texts)


def parse_modules(texts: Mapping[str, str]) -> dict[str, Module]:
    """The modules whose source texts these are, by their names."""
    return {
        name: Module(name, ast.parse(text), tuple(text.splitlines()))
        for name, text in texts.items()
    }


def imports_of(module: Module, names: Mapping[str, Module]) -> set[str]:
    """The product modules that ``module`` imports, in functions and for types too."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in names else node.module)
    return {name for name in found if name in names and name != module.name}


def circles(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Circles of ``graph`` that share no import, until none is left."""
    left = {name: set(imported) for name, imported in graph.items()}
    found = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle = tuple(error.args[1])
            found.append(circle)
            for imported, name in pairwise(circle):
                left[name].discard(imported)
        else:
            return found


def folder_circles(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Circles between the folders of rooms: ``mansard.<room>.<folder>`` and files beside them."""
    folders: dict[str, set[str]] = defaultdict(set)
    for name, imported in graph.items():
        mine = ".".join(name.split(".")[:3])
        folders[mine] |= {".".join(one.split(".")[:3]) for one in imported} - {mine}
        for one in imported:
            folders.setdefault(".".join(one.split(".")[:3]), set())
    return circles(folders)


@dataclass
class Counts:
    """What is counted of one room."""

    n_modules: int = 0
    n_lines: int = 0
    n_code_lines: int = 0
    n_single: int = 0
    n_short: int = 0
    class_names: list[str] = field(default_factory=list)

    def row(self, room: str) -> str:
        """One line of the table."""
        mean = self.n_lines / max(1, self.n_modules)
        twice = sum(n > 1 for n in Counter(self.class_names).values())
        return (
            f"| {room} | {self.n_modules} | {self.n_lines} | {self.n_code_lines} | {mean:.0f} "
            f"| {self.n_single} | {twice} | {self.n_short} |"
        )


def count(modules: Mapping[str, Module], graph: Mapping[str, set[str]]) -> dict[str, Counts]:
    """Counts by room, and of all of them under the name ``all``."""
    single = single_importers(graph)
    rooms: dict[str, Counts] = defaultdict(Counts)
    for module in modules.values():
        for counts in (rooms[module.room], rooms["all"]):
            counts.n_modules += 1
            counts.n_lines += len(module.lines)
            counts.n_code_lines += module.n_code_lines
            counts.n_single += module.name in single
            counts.n_short += _n_short(module.tree)
            counts.class_names += [
                node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
            ]
    return rooms


def single_importers(graph: Mapping[str, set[str]]) -> dict[str, str]:
    """Modules that exactly one other imports, and which one that is."""
    importers: dict[str, list[str]] = defaultdict(list)
    for name, imported in graph.items():
        for one in imported:
            importers[one].append(name)
    return {name: found[0] for name, found in importers.items() if len(found) == 1}


def _n_short(tree: ast.Module) -> int:
    """Functions whose body, without its docstring, is of two lines or fewer."""
    n_short = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = node.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        n_lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        n_short += n_lines <= SHORT_LINES
    return n_short


def main(arguments: Sequence[str]) -> int:
    """Print what ``arguments`` ask for."""
    modules = read_modules(ROOT)
    graph = {name: imports_of(module, modules) for name, module in modules.items()}
    if "--circles" in arguments:
        found = circles(graph) + folder_circles(graph)
        sys.stdout.writelines(" < ".join(circle) + "\n" for circle in found)
        return 1 if found else 0
    if "--single" in arguments:
        single = sorted(single_importers(graph).items())
        sys.stdout.writelines(f"{name}  <-  {importer}\n" for name, importer in single)
        return 0
    rooms = count(modules, graph)
    if "--twice" in arguments:
        names = Counter(rooms["all"].class_names)
        sys.stdout.writelines(f"{name} {n}\n" for name, n in sorted(names.items()) if n > 1)
        return 0
    sys.stdout.write(
        "| room | modules | lines | code lines | mean lines a module | modules with one importer "
        "| class names used twice | functions of two lines or fewer |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    everything = rooms.pop("all")
    sys.stdout.writelines(counts.row(room) + "\n" for room, counts in sorted(rooms.items()))
    sys.stdout.write(everything.row("all") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
