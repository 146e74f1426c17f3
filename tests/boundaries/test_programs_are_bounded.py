"""Every program is started through the one helper that bounds its time and its output."""

from __future__ import annotations

import ast
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
# The helper itself; what fills an image while it is built, where nothing of ours is installed;
# what runs a program or a server of the user's, which may take as long and print as much as it
# likes: a server's output goes to a file, and the supervisor ends it with this process; and what
# runs our own measuring process, which ends when its input does.
STARTERS = {
    "core/src/mansard/core/processes/programs.py",
    "inference/src/mansard/inference/programs/execution.py",
    "inference/src/mansard/inference/programs/metric.py",  # its matcher has a limit
    "inference/src/mansard/inference/programs/supervisor.py",
    "inference/src/mansard/inference/servers/process.py",
    "containers/src/mansard/containers/recipes/install.py",
    "measuring/src/mansard/measuring/guarded.py",
}
STARTING = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput"},
    "os": {
        "system",
        "popen",
        "spawnv",
        "spawnl",
        "posix_spawn",
        "posix_spawnp",
        "fork",
        "forkpty",
        "execv",
    },
    "pty": {"spawn", "fork"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}


def starts(tree: ast.Module) -> list[str]:
    """The calls that start a program, as ``module.function``."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, node.func.attr
            if isinstance(owner, ast.Name) and name in STARTING.get(owner.id, ()):
                found.append(f"{owner.id}.{name}")
        if isinstance(node, ast.ImportFrom) and node.module in STARTING:
            names = {alias.name for alias in node.names}
            found += [f"{node.module}.{name}" for name in names & STARTING[node.module]]
    return found


def test_no_other_code_starts_a_program() -> None:
    found = {
        str(path.relative_to(REPOSITORY)): calls
        for path in REPOSITORY.glob("*/src/**/*.py")
        if (calls := starts(ast.parse(path.read_text())))
    }
    assert set(found) == STARTERS, found


def test_each_way_to_start_one_is_seen() -> None:
    tree = ast.parse("import os\nos.popen('x')\nfrom subprocess import run\nsubprocess.Popen([])")
    assert sorted(starts(tree)) == ["os.popen", "subprocess.Popen", "subprocess.run"]
