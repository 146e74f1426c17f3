"""Runs the blocks of one page in an empty folder: a shell, and a Python beside it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.documents.command_server import LOG, install
from tests.documents.given import make_given
from tests.documents.pages import ROOT, Block

_BLOCK_S = 600
_NOT_OF_A_CLONE = frozenset((".git", ".venv", "runs", "demo", "site", "dist"))
_SHELL = 'while IFS= read -r block; do . "$block" </dev/null >&2; echo "$?"; done'


@dataclass(frozen=True)
class Commands:
    """Where the server's programs stand, and the rows of the commands that ended."""

    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    def log(self) -> list[dict[str, Any]]:
        path = self.folder / LOG
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@contextlib.contextmanager
def command_server() -> Iterator[Commands]:
    """A server of commands, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="pages-") as name:
        folder = Path(name)
        (folder / LOG).touch()
        install(folder / "bin", folder / "socket")
        started = [sys.executable, "-m", "tests.documents.command_server", str(folder / "socket")]
        with subprocess.Popen(started, stdout=subprocess.PIPE, cwd=ROOT) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            try:
                yield Commands(folder)
            finally:
                server.terminate()


@dataclass(frozen=True)
class Failure:
    """A block that did not run as the page says."""

    block: Block
    what: str
    output: str

    def __str__(self) -> str:
        return f"{self.block.where}: {self.what}\n{self.output}"


class Page:
    """A page while it runs: its folder, its shell, its Python."""

    def __init__(
        self, folder: Path, commands: Commands, boards: Path, shown: Mapping[str, str]
    ) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        self._scratch, self._boards, self._shown = folder, boards, shown
        self._commands = commands
        self._output = (folder / "output.txt").open("w+", encoding="utf-8")
        path = f"{commands.programs}{os.pathsep}{Path(sys.executable).parent}"
        self._environment = os.environ | {
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "PROFILE": "brief",  # of make: as a reader could set it
        }
        self._environment.pop("MANSARD_BOARD", None)
        self._runners: dict[str, _Runner] = {}

    def run(self, block: Block, number: int) -> Failure | None:
        """Run one block; None if it ends as the page says."""
        for given in block.given:
            name, _, maker = given.partition(" as ")
            path = self.folder / name
            if name == "checkout":
                _lay_checkout(self.folder, self._commands)
                continue
            if path.exists():
                continue
            path.parent.mkdir(exist_ok=True)
            if name in self._shown:
                path.write_text(self._shown[name], "utf-8")
            else:
                make_given(maker or name, path)
        board = str(self._boards / block.board) if block.board else ""
        is_python = block.language == "python"
        file = self._scratch / f"block-{number}.{'py' if is_python else 'sh'}"
        text = "\n".join(block.commands) + "\n"
        file.write_text(text if is_python else _script(text, board, block.exit_code), "utf-8")
        start = self._output.seek(0, os.SEEK_END)
        runner = self._runner("python" if is_python else "sh")
        code = runner.run(f"{file}\t{board}" if is_python else str(file))
        if not runner.is_alive:  # the next block gets a new one
            self._runners.pop("python" if is_python else "sh").close()
        self._output.seek(start)
        output = self._output.read()
        if code != block.exit_code and not (block.may_fail and code == 1):
            return Failure(block, f"exit code {code}, not {block.exit_code}", _end(output))
        if "Traceback (most recent call last)" in output or "internal error" in output:
            return Failure(block, "a traceback", _end(output))
        return None

    def close(self) -> None:
        for each in self._runners.values():
            each.close()
        self._output.close()

    def _runner(self, kind: str) -> _Runner:
        if kind not in self._runners:
            shell = ["bash", "--norc", "--noprofile", "-c", _SHELL]
            words = ["page-python"] if kind == "python" else shell
            self._runners[kind] = _Runner(
                words, self.folder, self._environment, self._output.fileno()
            )
        return self._runners[kind]


class _Runner:
    """A process that runs the file of each line it reads, and answers with its exit code."""

    def __init__(
        self, words: list[str], folder: Path, environment: dict[str, str], output: int
    ) -> None:
        self._process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )

    def run(self, line: str) -> int | None:
        """The exit code; None if none came in time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], _BLOCK_S)[0]:
            self.close()
            return None
        answer = self._process.stdout.readline()
        return int(answer) if answer else self._process.wait()  # the shell ended with a failure

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End it, with what it started in the background."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.communicate()


def _lay_checkout(folder: Path, commands: Commands) -> None:
    """What ``make`` needs of a clone that was set up before: its files, and an environment."""
    if (folder / "Makefile").exists():
        return
    for path in ROOT.iterdir():
        if path.name not in _NOT_OF_A_CLONE:
            (folder / path.name).symlink_to(path)
    programs = folder / ".venv/bin"
    programs.mkdir(parents=True)
    for path in Path(sys.executable).parent.iterdir():
        if path.name not in ("mansard", "activate"):
            (programs / path.name).symlink_to(path)
    (programs / "mansard").symlink_to(commands.programs / "mansard")
    (programs / "activate").write_text(f"PATH={programs}:$PATH\n", "utf-8")
    for stamp in (".base", ".dev"):
        (folder / ".venv" / stamp).touch()


def _script(commands: str, board: str, exit_code: int) -> str:
    """A block as the shell reads it: it ends with the first command that fails."""
    first = f"export MANSARD_BOARD={shlex.quote(board)}" if board else "unset MANSARD_BOARD"
    then = "set +e" if exit_code else "set -e; trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR"
    return f"{first}\n{then}\n{commands}"


def _end(output: str) -> str:
    return "\n".join(output.splitlines()[-30:])
