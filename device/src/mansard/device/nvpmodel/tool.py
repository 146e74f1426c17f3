"""The board's nvpmodel: its answers, setting a mode, and which modes need a reboot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from mansard.core.errors import DeviceError, MansardError
from mansard.core.processes.programs import Finished
from mansard.core.text import printable
from mansard.device.nvpmodel.caps import gating_masks, parse_integer, present_masks
from mansard.device.nvpmodel.modes import BoardMode, BoardModes, read_modes
from mansard.device.nvpmodel.sections import MODE_ID, mode_name
from mansard.device.system import SYSTEM_ROOT, find_tool, read_text, run_tool

STATUS_PATH = "/var/lib/nvpmodel/status"
_TIMEOUT_S = 60.0
_QUERY_TIMEOUT_S = 15.0  # it answers within a second, even where setting takes long
_NAME = re.compile(r"NV Power Mode\s*:\s*(\S+)(?:\s*\(mode ([0-9]{1,6})\))?")
_STATUS = re.compile(r"\bpmode:\s*([0-9]{1,6})\b")
_COMPLAINT = re.compile(r"NVPM (?:ERROR|WARN)\b")
_REBOOT = re.compile(r"reboot required|want to reboot now", re.IGNORECASE)
# It writes one setting after the other and ends at the first that the kernel refuses, such as a
# gating mask of a GPU that works (EBUSY, ENODEV): OE4T/meta-tegra issues 1268 and 1864.
_FAILED = re.compile(r"failed to set power mode", re.IGNORECASE)
_WRITING = re.compile(r"Error writing|failed to write PARAM", re.IGNORECASE)
# "Golden image context is already created": the GPU has run since the board was started, so
# its units can only be gated by starting it anew. Then the tool asks, and waits for an answer
# on its standard input. Anything but YES or yes means no.
_NO = "no\n"


class Query(msgspec.Struct, frozen=True):
    """The mode that nvpmodel says the board is in; what it complained about beside that."""

    name: str  # without NVIDIA's MODE_
    id: int | None
    complaints: tuple[str, ...]


class ModeOutcome(msgspec.Struct, frozen=True):
    """What became of the wish to set a mode.

    ``set``: the tool says that the board is in it now. ``reboot``: the board would have to be
    started anew, which was declined. ``partial``: the tool stopped half-way, so that the board is
    in no mode. ``refused``: it is not in the mode for another reason.
    """

    kind: Literal["set", "reboot", "partial", "refused"]
    text: str  # the tool's own words


def parse_query(output: str) -> Query | None:
    """The answer of ``nvpmodel -q``; None where it names no mode.

    Lines of complaint may stand before, between and after name and number. Releases up to
    r28 write both on one line: ``NV Power Mode: MAXN (mode 0)``.
    """
    lines = [line.strip() for line in output.splitlines()]
    complaints = tuple(printable(line, 200) for line in lines if _COMPLAINT.match(line))
    for place, line in enumerate(lines):
        match = _NAME.search(line)
        if match is not None:
            if match[2] is not None:
                return Query(mode_name(match[1]), int(match[2]), complaints)
            numbers = (int(later) for later in lines[place + 1 :] if MODE_ID.fullmatch(later))
            return Query(mode_name(match[1]), next(numbers, None), complaints)
    return None


def parse_status(text: str) -> int | None:
    """The mode's number in nvpmodel's own notes: ``pmode:0002``, or ``pmode:0002 fmode:quiet``."""
    match = _STATUS.search(text)
    return int(match[1]) if match else None


def query(root: Path = SYSTEM_ROOT, *, timeout_s: float = _QUERY_TIMEOUT_S) -> Query:
    """The mode the board is in; raises DeviceError where nothing tells.

    Asks the tool. Where it may not be run or does not answer, its notes in /var/lib are read;
    they tell a number, which the configuration gives its name.
    """
    tool = find_tool(root, "nvpmodel")
    answer: Query | None = None
    reason = "has no nvpmodel that may be run"
    if tool is not None:
        try:
            done = run_tool([tool, "-q"], answer=_NO, timeout_s=timeout_s)
            answer = parse_query(done.text)
            reason = f"nvpmodel -q names no mode: {_words(done)}"
        except DeviceError as error:
            reason = f"nvpmodel -q {error.what}"
    return answer or _query_notes(root, reason)


def _query_notes(root: Path, reason: str) -> Query:
    number = parse_status(read_text(root.joinpath(*Path(STATUS_PATH).parts[1:])) or "")
    sections = _known(root).config.modes
    section = next((candidate for candidate in sections if candidate.id == number), None)
    if section is None:
        raise DeviceError(
            f"the present power mode cannot be found out: {reason}",
            where=str(root),
            fix="run 'sudo nvpmodel -q' by hand to see what is wrong",
        )
    return Query(
        mode_name(section.name), section.id, (reason, f"the mode is the one in {STATUS_PATH}")
    )


def _known(root: Path) -> BoardModes:
    try:
        return read_modes(root)
    except MansardError as error:
        raise DeviceError(
            f"its power modes are unknown: {error.what}", where=error.where, fix=error.fix
        ) from error


def set_mode(root: Path, number: int, *, timeout_s: float = _TIMEOUT_S) -> ModeOutcome:
    """Ask nvpmodel for the mode of that number, never for a reboot; raises DeviceError.

    A tool that has not ended after ``timeout_s`` is killed; the mode is then not known. That it did
    set the mode is not taken from its words: it is asked afterwards which mode the board is in.
    """
    tool = find_tool(root, "nvpmodel")
    if tool is None:
        raise DeviceError(
            "has no nvpmodel that may be run",
            where=str(root),
            fix="run on the board itself, with its package nvidia-l4t-nvpmodel",
        )
    done = run_tool([tool, "-m", str(number)], answer=_NO, timeout_s=timeout_s)
    words = _words(done)
    now = query(root, timeout_s=min(timeout_s, _QUERY_TIMEOUT_S))
    is_writing = _WRITING.search(done.text) is not None
    has_failed = _FAILED.search(done.text) is not None or (is_writing and done.exit_code != 0)
    if has_failed and (is_writing or _is_mode(root, now, number)):
        return ModeOutcome("partial", words)
    if _is_mode(root, now, number):
        return ModeOutcome("set", words)
    return ModeOutcome("reboot" if _REBOOT.search(done.text) else "refused", words)


def _is_mode(root: Path, now: Query, number: int) -> bool:
    if now.id is not None:
        return now.id == number
    mode = _known(root).find(now.name)
    return mode is not None and mode.id == number


def _words(done: Finished) -> str:
    lines = " | ".join(line.strip() for line in done.text.splitlines() if line.strip())
    return printable(lines, 600) or f"nothing, exit code {done.exit_code}"


SetMode = Callable[[Path, int], ModeOutcome]


def reboot_modes(root: Path, modes: BoardModes, present: str | None) -> Mapping[str, str]:
    """The modes that may need a reboot: name -> why. Nothing is set to find out.

    Units of the GPU are gated when it is powered up. Once it has run, another mask holds
    after the next start only (the tool's "Golden image context is already created"), so a
    mode whose masks differ from the present ones may need it. Whether one does is certain
    only after ``probe``. The present masks are read from the kernel, or where it does not
    tell taken from the present mode.
    """
    now = _as_integers(present_masks(root, modes.config))
    current = modes.find(present) if present is not None else None
    if current is not None:
        now = {**_as_integers(gating_masks(current.section)), **now}
    reasons = {}
    for mode in modes.modes:
        changes = [
            f"{argument} {now.get(argument, 'unknown')} → {mask}"
            for argument, mask in _as_integers(gating_masks(mode.section)).items()
            if now.get(argument) != mask
        ]
        if changes and mode is not current:
            reasons[mode.mode.name] = f"changes the GPU's gating: {', '.join(changes)}"
    return reasons


def probe(
    root: Path, modes: Iterable[BoardMode], *, set_one: SetMode = set_mode
) -> Mapping[str, ModeOutcome]:
    """Try each mode, a reboot declined, and put the present one back; raises DeviceError.

    The sure way to know which modes need a reboot. It changes the board: use it inside
    ``hold_machine``, which brings the clocks back too.
    """
    wanted = tuple(modes)
    if not wanted:
        return {}  # even putting the present mode back would set its clocks anew
    present = query(root)
    if present.id is None:
        raise DeviceError(
            f"the number of the present mode {present.name} is unknown",
            where=str(root),
            fix="without it the mode could not be restored, so none is tried",
        )
    outcomes: dict[str, ModeOutcome] = {}
    try:
        for mode in wanted:
            outcomes[mode.mode.name] = set_one(root, mode.id)
    finally:
        back = set_one(root, present.id)
    if back.kind != "set":
        raise DeviceError(
            f"mode {present.name} could not be restored: {back.text}",
            where=str(root),
            fix=f"set it by hand: sudo nvpmodel -m {present.id}",
        )
    return outcomes


def _as_integers(masks: Mapping[str, str | None]) -> dict[str, int]:
    return {
        argument: mask
        for argument, text in masks.items()
        if (mask := parse_integer(text or "")) is not None
    }
