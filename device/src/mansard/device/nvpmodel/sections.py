"""The sections of a configuration, put together from its lines; damaged modes are refused.

A board is set by these lines, so a mode with any damage is refused, and the message names the
line: a line that cannot be read, a setting that is made twice or that may belong to another mode,
a core or a path that is missing. The files that NVIDIA ships have no such damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from mansard.core.errors import InputError
from mansard.core.text import listed, printable

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
    """One mode: its settings in the order in which nvpmodel makes them, each once."""

    id: int
    name: str
    settings: tuple[Setting, ...]

    def value(self, param: str, argument: str) -> str | None:
        """What the mode sets it to."""
        for setting in self.settings:
            if (setting.param, setting.argument) == (param, argument):
                return setting.value
        return None


class RefusedMode(msgspec.Struct, frozen=True):
    """A mode that is not used, because its settings are in doubt."""

    id: int
    name: str
    why: str


class Config(msgspec.Struct, frozen=True):
    """A whole configuration. ``ignored``: each line that was not used, and why."""

    params: tuple[Param, ...]
    modes: tuple[ModeSection, ...]
    default_id: int | None
    ignored: tuple[str, ...]
    refused: tuple[RefusedMode, ...] = ()

    def param(self, name: str) -> Param | None:
        """The parameter called ``name``."""
        return next((param for param in self.params if param.name == name), None)


# NVIDIA's longest file has 34 parameters and 9 modes.
_MAX_PARAMS = 256
_MAX_MODES = 128
_MAX_IGNORED = 200
_MAX_SHOWN = 8  # cores in a message
_FIELD = re.compile(r"(\w+)\s*=\s*(\S+)")
# A mode's name goes into tables, command lines and records.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
MODE_ID = re.compile(r"[0-9]{1,6}")
_DEFAULT = re.compile(r"(?:\S*\()?([0-9]{1,6})\)?")  # "2", or as the tool prints it "MODE_30W(2)"
_KINDS = frozenset({"FILE", "CLOCK", "HWMON"})
_SWITCHES = "CPU_ONLINE"  # the parameter of the cores
_CORE = re.compile(r"CORE_([0-9]{1,3})")


class ConfigLine(msgspec.Struct, frozen=True):
    """A line with content: a header of ``section`` with its fields, or a section's body.

    ``is_foreign``: a message of the tool about its own work, outside every section.
    """

    number: int
    text: str
    section: str | None
    rest: str
    is_foreign: bool = False


class _ModeSection(msgspec.Struct):
    line: int
    id: int
    name: str
    settings: dict[tuple[str, str], str]  # parameter and argument -> value, in the file's order


class _Builder:
    """Collects sections; ``body`` takes the lines of the one that is open."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.params: dict[str, Param] = {}
        self.modes: list[_ModeSection] = []
        self.doubts: dict[tuple[type, str], str] = {}  # kind and name of a section -> the first
        self.default_ids: set[int] = set()
        self.used: set[str] = set()  # parameters that modes set
        self.cores: dict[str, str] = {}  # core that modes switch -> one of these modes
        self.ignored: list[str] = []
        self._open: Param | _ModeSection | None = None
        self._is_fan = False
        self._is_lost = False  # in the lines of a section with an unusable header

    def ignore(self, line: ConfigLine, why: str) -> None:
        self.ignored.append(_words(line, why))

    def header(self, line: ConfigLine) -> None:
        pairs = _FIELD.findall(line.rest)
        fields = dict(pairs)
        if _FIELD.sub("", line.rest).strip() or len(fields) < len(pairs):
            fields = {}  # words that belong to something else, or two headers in one
        self._open = None
        # The fan's profile, up to r32, does not belong to a mode: its lines are skipped.
        self._is_fan = (line.section or "").startswith("FAN_")
        self._is_lost = line.section in {"PARAM", "POWER_MODEL"}
        if line.section == "PARAM":
            self._open_param(line, fields.get("TYPE", ""), fields.get("NAME", ""))
        elif line.section == "POWER_MODEL":
            self._open_mode(line, fields.get("ID", ""), fields.get("NAME", ""))
        elif line.section == "PM_CONFIG":
            match = _DEFAULT.fullmatch(fields.get("DEFAULT", ""))
            if match is None:
                self.ignore(line, "names no default mode")
            else:
                self.default_ids.add(int(match[1]))
        elif not self._is_fan:
            self.ignore(line, "is not a known header")

    def _open_param(self, line: ConfigLine, kind: str, name: str) -> None:
        if kind not in _KINDS or not _NAME.fullmatch(name):
            self.ignore(line, "has no known type or no name")
            return
        earlier = self.params.get(name)
        if earlier is not None and earlier.kind != kind:
            self.ignore(line, f"{name} is of type {earlier.kind} above")
            return
        if earlier is None and len(self.params) >= _MAX_PARAMS:
            raise InputError(f"defines more than {_MAX_PARAMS} parameters", where=self.where)
        # A parameter that is defined twice has the arguments of both.
        self._open = self.params.setdefault(name, Param(kind, name, {}))

    def _open_mode(self, line: ConfigLine, number: str, name: str) -> None:
        if not MODE_ID.fullmatch(number) or not _NAME.fullmatch(name):
            self.ignore(line, "has no number or no name that can be used")
            return
        mode = _ModeSection(line.number, int(number), name, {})
        for other in self.modes:
            same_name = mode_name(other.name).casefold() == mode_name(name).casefold()
            if other.id == mode.id or same_name:
                raise InputError(
                    f"has two modes of one number or name: {other.name} ({other.id}) on line "
                    f"{other.line}, {name} ({mode.id}) on line {line.number}",
                    where=self.where,
                    fix="it is ambiguous which of them is set: remove one",
                )
        if len(self.modes) >= _MAX_MODES:
            raise InputError(f"defines more than {_MAX_MODES} modes", where=self.where)
        self.modes.append(mode)
        self._open = mode

    def body(self, line: ConfigLine) -> None:
        words = line.rest.split()
        section = self._open
        if line.is_foreign:
            self.ignore(line, "does not belong to a configuration")
        elif section is None:
            self._stray(line)
        elif isinstance(section, Param):
            self._define(section, words, line)
        elif len(words) == 3:
            self._set(section, (words[0], words[1]), words[2], line)
        else:
            self._damage(section, line, "is not 'PARAMETER ARGUMENT value'")

    def _stray(self, line: ConfigLine) -> None:
        """A line outside every section: it may belong to the mode above that was cut short."""
        if not self._is_fan:
            self.ignore(line, "belongs to no section")
        if not self.modes or self._is_lost:
            return
        # An unreadable line may be anything; another one names what it sets.
        names = set(line.rest.split()[:1])
        if not names or names & self.used or names & self.params.keys():
            self.doubt(self.modes[-1], _words(line, "may be its own and belongs to no section"))

    def _set(self, mode: _ModeSection, name: tuple[str, str], value: str, line: ConfigLine) -> None:
        self.used.add(name[0])
        if name[0] == _SWITCHES:
            self.cores[name[1]] = mode.name
        if name not in mode.settings:
            mode.settings[name] = value
        elif next(reversed(mode.settings.items())) != (name, value):  # else a line twice in a row
            why = "is set twice: is the header of another mode missing?"
            self.doubt(mode, _words(line, why))  # once, not for each line of the other mode

    def _define(self, param: Param, words: list[str], line: ConfigLine) -> None:
        is_pattern = param.kind == "HWMON"
        if len(words) != 2 + is_pattern or not words[1].startswith("/"):
            self._damage(param, line, "is not 'ARGUMENT path'")
            return
        path = f"{words[1]}/*/{words[2]}" if is_pattern else words[1]
        if param.arguments.setdefault(words[0], path) != path:
            self._damage(param, line, "has another path above")

    def _damage(self, section: Param | _ModeSection, line: ConfigLine, why: str) -> None:
        self.ignore(line, why)
        self.doubt(section, _words(line, why))

    def doubt(self, section: Param | _ModeSection, why: str) -> None:
        self.doubts.setdefault((type(section), section.name), why)

    def end(self, *, is_whole: bool) -> None:
        """The text has ended; not ``is_whole``: without a line end."""
        if not is_whole and isinstance(self._open, _ModeSection):
            self.doubt(self._open, "the text ends within it")


def _words(line: ConfigLine, why: str) -> str:
    return f"line {line.number}: {why}: {printable(line.text, 80)}"


def mode_name(name: str) -> str:
    """A mode's name as Mansard uses it: NVIDIA's files write some of them ``MODE_15W``."""
    return name.removeprefix("MODE_") or name


def assemble(lines: Iterable[ConfigLine], where: str, *, is_whole: bool = True) -> Config:
    """The configuration of these lines; raises InputError as ``parse_config`` says.

    ``is_whole``: the last line has an end.
    """
    builder = _Builder(where)
    for line in lines:
        if line.section is None:
            builder.body(line)
        else:
            builder.header(line)
    if not builder.modes:
        raise InputError(
            "holds no power mode",
            where=where,
            fix="give the board's nvpmodel.conf, or what 'sudo nvpmodel -p --verbose' prints",
        )
    builder.end(is_whole=is_whole)
    ignored = builder.ignored
    if len(ignored) > _MAX_IGNORED:
        ignored = [*ignored[:_MAX_IGNORED], f"and {len(ignored) - _MAX_IGNORED} lines more"]
    refused = tuple(_refused(builder))
    if len(refused) == len(builder.modes):
        raise InputError(
            f"none of its power modes is sure: {refused[0].name}: {refused[0].why}",
            where=where,
            fix="compare it with a backup, or reinstall the package nvidia-l4t-nvpmodel",
        )
    doubtful = {refusal.id for refusal in refused}
    return Config(
        params=tuple(builder.params.values()),
        modes=tuple(
            ModeSection(mode.id, mode.name, tuple(Setting(*n, v) for n, v in mode.settings.items()))
            for mode in builder.modes
            if mode.id not in doubtful
        ),
        default_id=_default(builder, ignored),
        ignored=tuple(ignored),
        refused=refused,
    )


def _default(builder: _Builder, ignored: list[str]) -> int | None:
    ids = builder.default_ids
    if not ids:
        ignored.append("no PM_CONFIG section names the default mode: is the text cut short?")
    elif len(ids) > 1:
        ignored.append(f"PM_CONFIG: the default is mode {listed(sorted(map(str, ids)), 'or')}")
    elif all(mode.id not in ids for mode in builder.modes):
        ignored.append(f"PM_CONFIG: there is no mode {min(ids)}")
    else:
        return min(ids)
    return None


def _refused(builder: _Builder) -> Iterator[RefusedMode]:
    """The modes in doubt: by their own lines, by those of their parameters, or for a gap."""
    lost = _lost_cores(builder)
    for mode in builder.modes:
        doubt = builder.doubts.get((_ModeSection, mode.name), "")
        why = doubt or next(_broken(mode, builder), "") or lost
        if why:
            yield RefusedMode(mode.id, mode.name, why)


def _broken(mode: _ModeSection, builder: _Builder) -> Iterator[str]:
    # Some dumps begin with their modes: then nothing is defined, and nothing can be missed.
    has_head = not builder.used.isdisjoint(builder.params)
    for (name, argument), value in mode.settings.items():
        param = builder.params.get(name)
        damage = builder.doubts.get((Param, name))
        if damage:
            yield f"it sets {name}, whose definition is damaged: {damage}"
        elif has_head and param is None:
            yield f"it sets {name}, which no PARAM section defines"
        elif name == _SWITCHES and value not in {"0", "1"}:
            yield f"it switches {argument} to {printable(value, 40)!r}"
        elif param is not None and {argument, argument + KNEXT}.isdisjoint(param.arguments):
            yield f"it sets {argument} of {name}, whose path is missing"
    for argument, other in builder.cores.items():
        if (_SWITCHES, argument) not in mode.settings:
            yield f"it does not say whether {argument} is on, as {other} does"


def _lost_cores(builder: _Builder) -> str:
    """Why every mode is in doubt because no mode names some core; empty if none is.

    NVIDIA's files define cores that no mode switches: the first one of TX2, which is always on, and
    the last ones of AGX Orin 32GB, which has one cluster less than AGX Orin 64GB. Clusters have 2
    or 4 cores. So lines were lost where a core in the middle or an odd number of cores is missing.
    """
    defined = builder.params.get(_SWITCHES)
    named, defined_cores = (
        _core_numbers(builder.cores),
        _core_numbers(defined.arguments if defined else ()),
    )
    missing = sorted(defined_cores - named - {0}) if named else []
    if len(missing) % 2 == 0 and all(core > max(named) for core in missing):
        return ""
    shown = [f"CORE_{core}" for core in missing[:_MAX_SHOWN]]
    return f"no mode says whether {listed(shown, 'or')} is on"


def _core_numbers(arguments: Iterable[str]) -> set[int]:
    return {int(core[1]) for argument in arguments if (core := _CORE.fullmatch(argument))}
