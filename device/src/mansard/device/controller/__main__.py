"""``python -m mansard.device.controller``: answers on stdout what is asked on stdin.

Started on the board that is to be measured, in a container or not. It ends with its stdin, and
puts the board back whatever ends it but SIGKILL. Exit codes: 0 done, 1 failed, 2 wrong usage,
130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import BuiltinImporter, FrozenImporter
from pathlib import Path
from typing import IO

from mansard.core.errors import DeviceError, MansardError, UsageError, reported
from mansard.core.processes.line_channel import LineReader, claim_stdout, encode_line, to_wire
from mansard.core.processes.programs import turn_signals_into_interrupts
from mansard.core.version import VERSION
from mansard.device.controller import Holding, LocalController
from mansard.device.controller.messages import (
    PROTOCOL,
    AnyAnswer,
    AnyAsk,
    ChooseModes,
    ErrorAnswer,
    FindChanges,
    FindReboots,
    Greeting,
    HoldBoard,
    Identify,
    Lines,
    Machine,
    ModesAnswer,
    NumberedAsk,
    PlanRestore,
    PlanSteps,
    PutBack,
    Reboots,
    Release,
    Reply,
    SetMode,
    Steps,
    Welcome,
    decode,
)
from mansard.device.system import SYSTEM_ROOT

# In a container Python and its libraries are the image's, and the board's files are under /board.
# Links there are relative to the board's root (/proc/device-tree, /etc/nvpmodel.conf), and so are
# the paths in its tools: the process enters that root, as chroot(1) does. Everything is imported
# before. Later imports are refused, as they would load modules of the board's Python.
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}
_ROOMS = ("mansard.core", "mansard.device")
# Imported within functions: a reader of TOML, NVML's binding, and numpy for picking modes.
_LATE = ("numpy", "tomllib", "tomli", "pynvml", "random", "traceback")


def load_everything() -> None:
    """Import all that a controller may need, and forbid later imports."""
    for name in (*_modules(), *_LATE):
        try:
            importlib.import_module(name)
        except ImportError:  # optional ones
            if name.startswith("mansard."):
                raise
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter]


def enter(root: Path) -> None:
    """Make ``root`` the root of this process; raises DeviceError. Load everything before.

    The image's environment is left behind: the board's tools get what root's shell has there.
    """
    fix = "the board controller's container runs as root, with the capability SYS_CHROOT"
    with reported(DeviceError, "the board's root cannot be entered", where=str(root), fix=fix):
        os.chroot(root)
        os.chdir("/")
    os.environ.clear()
    os.environ.update(_ENVIRONMENT)


def _modules() -> Iterator[str]:
    for room in _ROOMS:
        yield from _below(room)


def _below(package: str) -> Iterator[str]:
    yield package
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if module.ispkg:
            yield from _below(module.name)
        elif not module.name.endswith("__main__"):
            yield module.name


MakeController = Callable[[], LocalController]


def serve(make: MakeController, questions: LineReader, answers: IO[bytes]) -> None:
    """Answer until the questions end; raises MansardError where the board is not put back then.

    An error of ``make`` is the answer to the greeting: it says what is wrong with the board.
    BrokenPipeError: the answers are not read any more.
    """
    _ControllerServer(questions, answers).serve(make)


class _ControllerServer:
    def __init__(self, questions: LineReader, answers: IO[bytes]) -> None:
        self._questions, self._answers = questions, answers

    def serve(self, make: MakeController) -> None:
        controller: LocalController | None = None
        for question in self._read():
            number, ask = question.number, question.ask
            if controller is None:
                controller = self._greet(number, ask, make)
            elif isinstance(ask, HoldBoard):
                self._hold(controller, number, is_set=ask.is_set)
            else:
                self._reply(number, partial(_answer, controller, ask))

    def _greet(self, number: int, ask: AnyAsk, make: MakeController) -> LocalController | None:
        try:
            check_version(ask)
            controller = make()
        except MansardError as error:
            self._send(number, ErrorAnswer(to_wire(error)))
            return None
        self._send(number, Welcome())
        return controller

    def _hold(self, controller: LocalController, number: int, *, is_set: bool) -> None:
        """Answer within a sweep, until its release or the end of the questions."""
        is_wanted = True
        try:
            with controller.hold(is_set=is_set) as held:
                self._send(number, Lines(held.left_behind))
                is_wanted = False
                for question in self._read():
                    if isinstance(question.ask, Release):
                        number, is_wanted = question.number, True
                        break
                    answer = partial(_answer_held, controller, held, question.ask)
                    self._reply(question.number, answer)
        except MansardError as error:
            if not is_wanted:  # no answer is awaited
                raise
            self._send(number, ErrorAnswer(to_wire(error)))
        else:
            if is_wanted:
                self._send(number, Lines(()))

    def _reply(self, number: int, answer: Callable[[], AnyAnswer]) -> None:
        try:
            reply = answer()
        except MansardError as error:
            reply = ErrorAnswer(to_wire(error))
        except ModuleNotFoundError as error:  # on a host without an image
            lacking = DeviceError(
                f"its Python lacks {error.name}, by which --pick spreads modes",
                fix=f"install {error.name} there, or name the modes",
            )
            reply = ErrorAnswer(to_wire(lacking))
        self._send(number, reply)

    def _read(self) -> Iterator[NumberedAsk]:
        while (line := self._questions.next()) is not None:
            try:
                question = decode(line, NumberedAsk)
            except DeviceError as error:
                self._send(0, ErrorAnswer(to_wire(error)))
                return
            yield question

    def _send(self, number: int, answer: AnyAnswer) -> None:
        self._answers.write(encode_line(Reply(number, answer)))
        self._answers.flush()


def check_version(ask: AnyAsk) -> None:
    """Raises DeviceError unless it is the greeting of our own version."""
    if not isinstance(ask, Greeting):
        raise UsageError("a board controller expects a greeting first")
    if (ask.protocol, ask.tool_version) != (PROTOCOL, VERSION):
        raise DeviceError(
            f"the board controller is of Mansard {VERSION}, its caller of {ask.tool_version}",
            fix="use the same version on both sides: build the board's image again",
        )


def _answer(controller: LocalController, ask: AnyAsk) -> AnyAnswer:
    match ask:
        case Identify():
            return Machine(controller.identify())
        case ChooseModes(text, pick, grid):
            return ModesAnswer(controller.choose_modes(text, pick, grid=grid))
        case PlanSteps(modes):
            return Steps(controller.planned_steps(modes))
        case PutBack():
            return Lines(controller.put_back())
        case PlanRestore():
            return Lines(controller.planned_restore())
    raise UsageError(f"a board controller cannot answer {type(ask).__name__} now")


def _answer_held(controller: LocalController, held: Holding, ask: AnyAsk) -> AnyAnswer:
    match ask:
        case SetMode(mode):
            return ModesAnswer((held.set(mode),))
        case FindChanges():
            return Lines(held.changes())
        case FindReboots(modes):
            return Reboots(held.needing_reboot(modes))
    return _answer(controller, ask)


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    turn_signals_into_interrupts()
    try:
        answers = claim_stdout()
        load_everything()
        serve(lambda: _make(options), LineReader(0, options.quiet_s), answers)
    except BrokenPipeError:
        return 1  # the caller is gone; the board is as it was
    except KeyboardInterrupt:
        _say("stopped; the board is as it was")
        return 130
    except MansardError as error:
        _say(str(error))
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mansard.device.controller", description=__doc__)
    root = parser.add_mutually_exclusive_group()
    root.add_argument("--board", type=Path, help="root folder of a simulated board")
    root.add_argument("--enter", type=Path, help="root of the board, mounted in this container")
    parser.add_argument(
        "--quiet-s", type=float, help="seconds without a line on stdin after which it ends"
    )
    return parser


def _make(options: argparse.Namespace) -> LocalController:
    if options.enter is not None:
        enter(options.enter)
    return LocalController(options.board or SYSTEM_ROOT)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"mansard.device.controller: {line}\n")


if __name__ == "__main__":
    code = main()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    # Not sys.exit: it would write out what an unread answer has left.
    os._exit(code)
