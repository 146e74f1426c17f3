"""Commands and options that messages name exist, wherever in the product the message stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.cli.test_cli_help import EVERY

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    option
    for command in EVERY.values()
    for each in command.params
    for option in (*each.opts, *each.secondary_opts)
}
OPTIONS |= {"--help", "--probe", "--make"}  # the last two: of python -m mansard.microbench
# Options of other programs stand behind that program's name.
OTHERS = re.compile(
    r"\b(?:ncu|trtexec|tegrastats|jetson_clocks|systemctl|nvidia-ctk|nvidia-smi|tf2onnx|pip|ulimit"
    r"|dask|dask scheduler|trtllm-bench|vLLM|llama-server|export it|start it|docker)\b.*"
)


@cache
def literals() -> tuple[tuple[str, str], ...]:
    """Where each text of the product stands, and the text."""
    return tuple(
        (f"{path.relative_to(ROOT)}:{line}", text)
        for path in sorted(ROOT.glob("*/src/**/*.py"))
        for line, text in literals_of(path.read_text("utf-8"))
    )


def literals_of(source: str) -> Iterator[tuple[int, str]]:
    """Every text of a module but docstrings, with the parts between placeholders joined."""
    nodes = [*ast.walk(ast.parse(source))]
    docs = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        ):
            yield node.lineno, node.value


def test_commands_that_messages_name_exist() -> None:
    n_named = 0
    for where, text in literals():
        for words in re.findall(r"'mansard ([a-z][a-z -]*)", text):
            path = tuple(words.split(" -")[0].split())
            known = next((path[:n] for n in (2, 1) if path[:n] in EVERY), None)
            assert known, f"{where}: mansard {words}"
            n_named += 1
    assert n_named > 50


def test_options_that_messages_name_exist() -> None:
    n_named = 0
    for where, text in literals():
        if " " not in text.strip(" {}") or "boards" in where:  # an argument, or a board's own notes
            continue
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+(?![\w-])", OTHERS.sub("", text)):
            assert option in OPTIONS, f"{where}: {text}"
            n_named += 1
    assert n_named > 200
