"""Questions to a controller and its answers: one JSON line each, matched by number.

Both ends must be of one version of Mansard: records carry none of their own here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.processes.line_channel import DECODE_ERRORS, WireError
from mansard.core.records import MachineIdentity, PowerMode
from mansard.core.version import VERSION

PROTOCOL = 4  # raised with every change of this file


class Ask(msgspec.Struct, frozen=True, tag_field="ask", forbid_unknown_fields=True):
    """Base of all questions."""


class Greeting(Ask, tag="hello", frozen=True):
    """The first line: the version of the caller."""

    protocol: int = PROTOCOL
    tool_version: str = VERSION


class Identify(Ask, tag="identify", frozen=True):
    """Which machine is it?"""


class ChooseModes(Ask, tag="choose", frozen=True):
    """Which modes are meant? ``grid`` is what the file holds that ``text`` names."""

    text: str | None
    pick: int | None
    grid: str | None


class PlanSteps(Ask, tag="plan", frozen=True):
    """What would setting these modes do?"""

    modes: tuple[PowerMode, ...]


class PutBack(Ask, tag="put-back", frozen=True):
    """Put back what an interrupted run left."""


class PlanRestore(Ask, tag="plan-restore", frozen=True):
    """What would PutBack set?"""


class HoldBoard(Ask, tag="hold", frozen=True):
    """Begin a sweep; not ``is_set``: one that only locks the board."""

    is_set: bool = True


class FindReboots(Ask, tag="reboots", frozen=True):
    """Within a sweep: which of these modes need a reboot?"""

    modes: tuple[PowerMode, ...]


class SetMode(Ask, tag="set", frozen=True):
    """Within a sweep: bring the board to this mode."""

    mode: PowerMode


class FindChanges(Ask, tag="changes", frozen=True):
    """Within a sweep: what has changed since SetMode?"""


class Release(Ask, tag="release", frozen=True):
    """End the sweep and put the board back."""


class Answer(msgspec.Struct, frozen=True, tag_field="answer", forbid_unknown_fields=True):
    """Base of all answers."""


class Welcome(Answer, tag="welcome", frozen=True):
    """To Greeting: the protocol and version of the controller."""

    protocol: int = PROTOCOL
    tool_version: str = VERSION


class Machine(Answer, tag="machine", frozen=True):
    """To Identify."""

    machine: MachineIdentity


class ModesAnswer(Answer, tag="modes", frozen=True):
    """To ChooseModes; to SetMode the one that was read back."""

    modes: tuple[PowerMode, ...]


class Steps(Answer, tag="steps", frozen=True):
    """To PlanSteps: the lines of each mode."""

    steps: tuple[tuple[str, ...], ...]


class Lines(Answer, tag="lines", frozen=True):
    """To PutBack and HoldBoard: what an interrupted run had left. To PlanRestore: what would be
    set. To FindChanges: what has changed since it was set. To Release: none."""

    lines: tuple[str, ...]


class Reboots(Answer, tag="reboots", frozen=True):
    """To FindReboots: name -> the words of the board's tool."""

    reboots: Mapping[str, str]


class ErrorAnswer(Answer, tag="failed", frozen=True):
    """To anything: an error, to be raised on the other side as what it is."""

    error: WireError


AnyAsk = (
    Greeting
    | Identify
    | ChooseModes
    | PlanSteps
    | PutBack
    | PlanRestore
    | HoldBoard
    | FindReboots
    | SetMode
    | FindChanges
    | Release
)
AnyAnswer = Welcome | Machine | ModesAnswer | Steps | Lines | Reboots | ErrorAnswer


class NumberedAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question and its number."""

    number: int
    ask: AnyAsk


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer, and the number of the question that it is to."""

    number: int
    answer: AnyAnswer


Message = TypeVar("Message", NumberedAsk, Reply)


def decode(line: bytes, kind: type[Message]) -> Message:
    """The message in a line; raises DeviceError."""
    try:
        return msgspec.json.decode(line, type=kind)
    except DECODE_ERRORS as error:
        raise DeviceError(
            f"the line {line[:80]!r} is not of Mansard {VERSION}: {error}",
            fix="use the same version of Mansard on both sides: build the board's image again",
        ) from error
