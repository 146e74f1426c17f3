"""What a configuration of nvpmodel says, as values; nothing of it has been tried yet."""

from __future__ import annotations

import msgspec

KNEXT = "_KNEXT"  # ends the names of arguments that hold a newer kernel's path


class Param(msgspec.Struct, frozen=True):
    """Something that can be set: the board's absolute path of each of its arguments.

    An argument of kind HWMON holds a pattern: the number in its folder's name is not stable.
    Paths are as the file gives them: whoever opens one goes through ``system.below``.
    """

    kind: str  # FILE, CLOCK or HWMON
    name: str
    arguments: dict[str, str]


class Setting(msgspec.Struct, frozen=True):
    """One value that a mode sets."""

    param: str
    argument: str
    value: str


class Table(msgspec.Struct, frozen=True):
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
    modes: tuple[Table, ...]
    default_id: int | None
    ignored: tuple[str, ...]

    def param(self, name: str) -> Param | None:
        """The parameter called ``name``."""
        return next((param for param in self.params if param.name == name), None)
