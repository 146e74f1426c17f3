"""The program trtexec: where it is, its version, its options, and one run of it.

https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/command-line-programs.html
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mansard.core.errors import MeasurementError, TransientError
from mansard.core.formats.tensorrt import is_enabled, printed_line, printed_option, version_in
from mansard.core.processes.programs import run_program
from mansard.inference.engines.tensorrt.messages import Messages, explained
from mansard.inference.engines.tensorrt.versions import Version, parse_version

_NAME = "trtexec"
_FOLDER = Path("/usr/src/tensorrt/bin")  # of JetPack, and of NVIDIA's containers
_REMEDY = "put it on PATH; JetPack has it in /usr/src/tensorrt/bin"
_ASKING_S = 120.0  # it loads TensorRT's libraries first
_MOST_PRINTED = 64 << 20
_SIMPLE = re.compile(r"--(\w+)")
_MARK = " [TRT] "


@dataclass(frozen=True)
class Program:
    """The trtexec of one version, and which options it knows."""

    path: str
    version: Version
    flags: frozenset[str]

    def has(self, flag: str) -> bool:
        """Whether trtexec has the option ``--flag``."""
        return flag in self.flags

    def optional(self, argument: str) -> list[str]:
        """``--flag=value``, where trtexec has the option."""
        return [argument] if self.has(argument.removeprefix("--").partition("=")[0]) else []

    def run(self, arguments: Sequence[str], timeout_s: float, where: str) -> ProgramOutput:
        """Run trtexec on ``where``; returns its output, raises MeasurementError in one line."""
        done = run_program(
            [self.path, *arguments],
            timeout_s=timeout_s,
            max_bytes=_MOST_PRINTED,
            is_merged=True,
            error=TransientError,
        )
        printed = read_printed(done.text)
        if done.exit_code < 0:
            raise TransientError(
                f"trtexec was ended by signal {-done.exit_code}",
                where=where,
                fix="it may have needed more memory than there is",
            )
        if done.exit_code:
            if not printed.messages.errors and done.text.strip():
                printed.messages.errors.append(done.text.strip().splitlines()[-1])
            raise explained(printed.messages, where)
        return printed


@dataclass(frozen=True)
class ProgramOutput:
    """The output of one run: errors, warnings, and options by trtexec's names."""

    messages: Messages
    options: dict[str, str]

    def is_on(self, option: str) -> bool | None:
        """Whether the output says that an option is enabled; None where it does not say."""
        value = self.options.get(option)
        return None if value is None else is_enabled(value)


def find_program() -> Program:
    """trtexec on PATH or in JetPack's folder; raises MeasurementError where there is none."""
    path = shutil.which(_NAME) or shutil.which(_NAME, path=str(_FOLDER))
    if path is None:
        raise MeasurementError("there is no trtexec", fix=_REMEDY)
    command = [path, "--help"]
    text = run_program(command, timeout_s=_ASKING_S, is_merged=True, error=MeasurementError).text
    version = version_in(text)
    if version is None:
        lines = text.strip().splitlines() or ["nothing"]
        raise MeasurementError(f"trtexec does not say its version: {lines[-1]}", where=path)
    return Program(path, parse_version(version), frozenset(_SIMPLE.findall(text)))


def read_printed(output: str) -> ProgramOutput:
    """The messages and options among the lines that trtexec printed."""
    messages, options = Messages(), dict[str, str]()
    for raw in output.splitlines():
        level, text = printed_line(raw)
        said = text.removeprefix(_MARK.lstrip())
        if level == "E":
            messages.keep(1, said)
        elif level == "W":
            messages.keep(2, said)
        elif level in {"I", "V"} and (option := printed_option(said)) is not None:
            options.setdefault(*option)
    return ProgramOutput(messages, options)


def quoted(name: str) -> str:
    """A tensor's name for an option, quoted where it contains a separator."""
    return f"'{name}'" if set(name) & set(":,") else name


def shape_option(name: str, shape: Sequence[int]) -> str:
    """The shape of a tensor in ``--shapes`` and the like."""
    return f"{quoted(name)}:{'x'.join(map(str, shape))}"
