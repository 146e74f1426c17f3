"""From lines to a configuration: the rules that the file and the tool's dump share."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from mansard.core.errors import InputError
from mansard.core.text import printable
from mansard.device.nvpmodel.config import Config, Param, Setting, Table

# NVIDIA's longest file has 34 parameters and 9 modes.
_MAX_PARAMS = 256
_MAX_MODES = 128
_MAX_IGNORED = 200
_FIELD = re.compile(r"(\w+)\s*=\s*(\S+)")
# A mode's name goes into tables, command lines and records.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_ID = re.compile(r"[0-9]{1,6}")
_DEFAULT = re.compile(r"(?:\S*\()?([0-9]{1,6})\)?")  # "2", or as the tool prints it "MODE_30W(2)"
_KINDS = frozenset({"FILE", "CLOCK", "HWMON"})


class Line(msgspec.Struct, frozen=True):
    """A line with content: a header of ``section`` with its fields, or a section's body."""

    number: int
    text: str
    section: str | None
    rest: str


class _Mode(msgspec.Struct):
    line: int
    id: int
    name: str
    settings: list[Setting]


class _Builder:
    """Collects sections; ``body`` takes the lines of the one that is open."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.params: dict[str, Param] = {}
        self.modes: list[_Mode] = []
        self.default_id: int | None = None
        self.ignored: list[str] = []
        self._open: Param | _Mode | None = None
        self._is_fan = False

    def ignore(self, line: Line, why: str) -> None:
        self.ignored.append(f"line {line.number}: {why}: {printable(line.text, 80)}")

    def header(self, line: Line) -> None:
        fields = dict(_FIELD.findall(line.rest))
        self._open = None
        # The fan's profile, up to r32, is no part of a mode: nothing of it is read, or missed.
        self._is_fan = (line.section or "").startswith("FAN_")
        if line.section == "PARAM":
            self._open_param(line, fields.get("TYPE", ""), fields.get("NAME", ""))
        elif line.section == "POWER_MODEL":
            self._open_mode(line, fields.get("ID", ""), fields.get("NAME", ""))
        elif line.section == "PM_CONFIG":
            match = _DEFAULT.fullmatch(fields.get("DEFAULT", ""))
            if match is None:
                self.ignore(line, "names no default mode")
            else:
                self.default_id = int(match[1])
        elif not self._is_fan:
            self.ignore(line, "is no header of this grammar")

    def _open_param(self, line: Line, kind: str, name: str) -> None:
        if kind not in _KINDS or not _NAME.fullmatch(name):
            self.ignore(line, "has no known type or no name")
            return
        known = self.params.get(name)
        if known is not None and known.kind != kind:
            self.ignore(line, f"{name} is of type {known.kind} above")
            return
        if known is None and len(self.params) >= _MAX_PARAMS:
            raise InputError(f"defines more than {_MAX_PARAMS} parameters", where=self.where)
        # A parameter that is defined twice has the arguments of both; of one argument the later.
        self._open = self.params.setdefault(name, Param(kind, name, {}))

    def _open_mode(self, line: Line, number: str, name: str) -> None:
        if not _ID.fullmatch(number) or not _NAME.fullmatch(name):
            self.ignore(line, "has no number or no name that can be used")
            return
        mode = _Mode(line.number, int(number), name, [])
        for other in self.modes:
            same_name = mode_name(other.name).casefold() == mode_name(name).casefold()
            if other.id == mode.id or same_name:
                raise InputError(
                    f"has two modes of one number or name: {other.name} ({other.id}) on line "
                    f"{other.line}, {name} ({mode.id}) on line {line.number}",
                    where=self.where,
                    fix="which of them would be set cannot be known: take one out",
                )
        if len(self.modes) >= _MAX_MODES:
            raise InputError(f"defines more than {_MAX_MODES} modes", where=self.where)
        self.modes.append(mode)
        self._open = mode

    def body(self, line: Line) -> None:
        words = line.rest.split()
        section = self._open
        if section is None:
            if not self._is_fan:
                self.ignore(line, "belongs to no section")
        elif isinstance(section, _Mode):
            if len(words) == 3:
                section.settings.append(Setting(*words))
            else:
                self.ignore(line, "is not 'PARAMETER ARGUMENT value'")
        elif len(words) == 2 and section.kind != "HWMON" and words[1].startswith("/"):
            section.arguments[words[0]] = words[1]
        elif len(words) == 3 and section.kind == "HWMON" and words[1].startswith("/"):
            section.arguments[words[0]] = f"{words[1]}/*/{words[2]}"
        else:
            self.ignore(line, "is not 'ARGUMENT path'")


def mode_name(name: str) -> str:
    """A mode's name as Mansard uses it: NVIDIA's files write some of them ``MODE_15W``."""
    return name.removeprefix("MODE_") or name


def assemble(lines: Iterable[Line], where: str) -> Config:
    """The configuration of these lines; raises InputError as ``parse_config`` says."""
    builder = _Builder(where)
    for line in lines:
        if line.section is None:
            builder.body(line)
        else:
            builder.header(line)
    if not builder.modes:
        raise InputError(
            "holds no power mode", where=where, fix="is this the board's nvpmodel.conf?"
        )
    default_id = builder.default_id
    ignored = builder.ignored
    if len(ignored) > _MAX_IGNORED:
        ignored = [*ignored[:_MAX_IGNORED], f"and {len(ignored) - _MAX_IGNORED} lines more"]
    if default_id is None:
        ignored.append("no PM_CONFIG section names the default mode: is the text cut short?")
    elif all(mode.id != default_id for mode in builder.modes):
        ignored.append(f"PM_CONFIG: there is no mode {default_id}")
        default_id = None
    return Config(
        params=tuple(builder.params.values()),
        modes=tuple(Table(mode.id, mode.name, tuple(mode.settings)) for mode in builder.modes),
        default_id=default_id,
        ignored=tuple(ignored),
    )
