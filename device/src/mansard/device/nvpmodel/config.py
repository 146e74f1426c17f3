"""nvpmodel.conf and the output of ``nvpmodel -p --verbose``, read into sections and settings.

The grammar of the file::

    < PARAM TYPE=FILE|CLOCK NAME=name >      then lines  ARGUMENT path
    < PARAM TYPE=HWMON NAME=name >           then lines  ARGUMENT folder file
    < POWER_MODEL ID=number NAME=name >      then lines  PARAMETER ARGUMENT value
    < PM_CONFIG DEFAULT=number >
    < FAN_CONFIG DEFAULT=profile >           not read
    # comments, anywhere

Source: the head of every configuration file that NVIDIA ships describes it so. Files also
leave out spaces (<PARAM TYPE=CLOCK NAME=EMC >), and the path of an argument for a newer
kernel stands under the same name with _KNEXT.

The dump of the tool is the same configuration in other words: every line begins with
``NVPM VERB:``; headers have no angle brackets, ``POWER_MODEL:`` and ``PM_CONFIG:`` have a colon,
and the default is written ``MODE_30W(2)``.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from mansard.core.errors import DeviceError, InputError
from mansard.core.text import printable
from mansard.device.system import read_start

KNEXT = "_KNEXT"  # ends the names of arguments that hold a newer kernel's path


class Param(msgspec.Struct, frozen=True):
    """Something that can be set: the board's absolute path of each of its arguments.

    An argument of kind HWMON holds a pattern: the number in its folder's name is not stable.
    Paths are as the file gives them: they are opened through ``system.below``.
    """

    kind: str  # FILE, CLOCK or HWMON
    name: str
    arguments: dict[str, str]


class Setting(msgspec.Struct, frozen=True):
    """One value that a mode sets."""

    param: str
    argument: str
    value: str


class ModeSection(msgspec.Struct, frozen=True):
    """One mode: its settings in the order in which nvpmodel makes them."""

    id: int
    name: str
    settings: tuple[Setting, ...]

    def value(self, param: str, argument: str) -> str | None:
        """What the mode sets it to; the last setting holds where there are several."""
        for setting in reversed(self.settings):
            if (setting.param, setting.argument) == (param, argument):
                return setting.value
        return None


class Config(msgspec.Struct, frozen=True):
    """A whole configuration; ``ignored`` says of every line that is no part of it why."""

    params: tuple[Param, ...]
    modes: tuple[ModeSection, ...]
    default_id: int | None
    ignored: tuple[str, ...]

    def param(self, name: str) -> Param | None:
        """The parameter called ``name``."""
        return next((param for param in self.params if param.name == name), None)


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


class ConfigLine(msgspec.Struct, frozen=True):
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

    def ignore(self, line: ConfigLine, why: str) -> None:
        self.ignored.append(f"line {line.number}: {why}: {printable(line.text, 80)}")

    def header(self, line: ConfigLine) -> None:
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

    def _open_param(self, line: ConfigLine, kind: str, name: str) -> None:
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

    def _open_mode(self, line: ConfigLine, number: str, name: str) -> None:
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

    def body(self, line: ConfigLine) -> None:
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


def assemble(lines: Iterable[ConfigLine], where: str) -> Config:
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
        modes=tuple(
            ModeSection(mode.id, mode.name, tuple(mode.settings)) for mode in builder.modes
        ),
        default_id=default_id,
        ignored=tuple(ignored),
    )


_MAX_CHARACTERS = 1 << 18  # twelve times the longest file that NVIDIA ships
MAX_LINE = 1000  # characters; a path on a board has a hundred
_LINE_END = re.compile(r"\r\n|\r|\n")
_HEADER = re.compile(r"<\s*(\w+)([^<>]*)>?")


def parse_config(text: str, where: str) -> Config:
    """The configuration that ``text``, the file ``where``, holds.

    Lines that are no part of the grammar are kept in ``ignored``; a header that is none
    takes the lines below it along. Raises InputError for a text without any mode, for one
    too large or binary, and where two modes have one number or one name: setting one of
    them could set the other.
    """
    return assemble(_lines(text, where), where)


def text_lines(text: str, where: str) -> Iterator[tuple[int, str]]:
    """Number and stripped content of each line that has any; raises InputError."""
    if len(text) > _MAX_CHARACTERS:
        raise InputError(
            f"has {len(text):,} characters, no configuration of power modes is that long",
            where=where,
        )
    if "\0" in text:
        raise InputError("is a binary file, not a configuration of power modes", where=where)
    for number, raw in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), start=1):
        line = raw.strip()
        if line:
            yield number, line


def _lines(text: str, where: str) -> Iterator[ConfigLine]:
    for number, raw in text_lines(text, where):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        header = _HEADER.fullmatch(line) if len(line) <= MAX_LINE else None
        if header is not None:
            yield ConfigLine(number, line, header[1], header[2])
        elif line.startswith("<"):
            yield ConfigLine(number, line, "", "")
        else:
            yield ConfigLine(number, line, None, line if len(line) <= MAX_LINE else "")


_PREFIX = re.compile(r"NVPM VERB:\s*")
_START = re.compile(r"^\s*NVPM VERB:", re.MULTILINE)
_DUMP_HEADER = re.compile(r"(PARAM|POWER_MODEL|PM_CONFIG|FAN_[A-Z]+)\b:?(.*)")
# What the tool says about its own work, before and after the dump.
_CHATTER = re.compile(r"Config file:|parsing done for|succeed to parse|\W*$|#")


def parse_verbose(text: str, where: str) -> Config:
    """The configuration in a dump; raises InputError as ``parse_config`` does.

    A dump shows the paths of the kernel that runs alone, not the ``_KNEXT`` ones beside them.
    """
    return assemble(_dump_lines(text, where), where)


def is_verbose(text: str) -> bool:
    """Whether ``text`` is such a dump rather than a configuration file."""
    return _START.search(text) is not None


def _dump_lines(text: str, where: str) -> Iterator[ConfigLine]:
    for number, raw in text_lines(text, where):
        prefix = _PREFIX.match(raw)
        content = raw[prefix.end() :] if prefix else raw
        header = _DUMP_HEADER.match(content)
        if _CHATTER.match(content):
            continue
        if header is not None:
            yield ConfigLine(number, raw, header[1], header[2] if len(raw) <= MAX_LINE else "")
        elif prefix is None or len(raw) > MAX_LINE:
            yield ConfigLine(number, raw, None, "")  # such as a complaint amid the dump
        else:
            yield ConfigLine(number, raw, None, content)


CONFIG_PATH = "/etc/nvpmodel.conf"
_MAX_BYTES = 1 << 22
_MAX_LINKS = 8


def read_config(root: Path) -> tuple[Config, str]:
    """The board's configuration and its file; raises DeviceError or InputError."""
    path = _follow(root)
    text = _read(path, "a Jetson has it from the package nvidia-l4t-nvpmodel; other machines none")
    return parse_config(text, str(path)), str(path)


def load_config(path: Path) -> Config:
    """The configuration in a file, or in a dump of the tool; raises DeviceError or InputError."""
    text = _read(path, "name an nvpmodel.conf, or a dump of 'nvpmodel -p --verbose'")
    return parse_verbose(text, str(path)) if is_verbose(text) else parse_config(text, str(path))


def _follow(root: Path) -> Path:
    """The file itself: a link's absolute target lies below ``root`` too."""
    place = PurePosixPath(CONFIG_PATH)
    for _ in range(_MAX_LINKS):
        path = root.joinpath(*place.parts[1:])
        try:
            target = path.readlink()
        except OSError:  # no link: the file itself, or nothing at all
            return path
        # Nothing leads above the root, as it would not on the board.
        place = PurePosixPath(os.path.normpath(place.parent / target))
    raise DeviceError("is a circle of links", where=str(root.joinpath(*place.parts[1:])))


def _read(path: Path, fix: str) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("is not a file", where=str(path))
        data = read_start(path, _MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DeviceError(
            f"cannot be read: {reason.lower()}",
            where=str(path),
            fix=fix,
        ) from error
    if len(data) > _MAX_BYTES:
        raise InputError("is too large for a configuration of power modes", where=str(path))
    return data.decode("utf-8", "replace")
