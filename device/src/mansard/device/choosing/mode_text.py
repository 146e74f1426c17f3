"""Modes as they are written on a command line: names, and settings such as ``gpu=612MHz``."""

from __future__ import annotations

from mansard.core.errors import UsageError
from mansard.core.frequency import parse_frequency
from mansard.core.power_mode import Settings
from mansard.device.choosing.amount import read_amount
from mansard.device.choosing.choices import KEYS

EXAMPLE = "gpu=612MHz,emc=2133MHz,cpu=1190MHz,cores=4"
_ALIASES = {"memory": "emc", "mem": "emc", "core": "cores", "cpus": "cores"}
_SM_KEYS = {"sm", "sms", "tpc", "tpcs"}
_SMS_FIXED = (
    "multiprocessors are gated by the board's own modes alone, before the GPU driver starts: "
    "choose one of them by name (mansard modes shows the SMs of each)"
)


def is_settings(text: str) -> bool:
    """Whether ``text`` sets clocks or cores one by one."""
    return "=" in text


def split_names(text: str) -> tuple[str, ...]:
    """The names of a list with commas, each once; raises UsageError for an empty one."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if "" in names:
        raise UsageError(f"no mode stands between the commas of {text!r}", fix="name each one")
    return names


def parse_settings(text: str) -> tuple[Settings, ...]:
    """The settings of each mode in ``text``, separated by ';'; raises UsageError."""
    wanted = dict.fromkeys(parse_one(part) for part in text.split(";") if part.strip())
    return tuple(wanted)


def parse_one(text: str) -> Settings:
    """The settings of one mode: ``key=value`` with commas between; raises UsageError."""
    pairs = split_pairs(text)
    cores = pairs.pop("cores", None)
    clocks = {key: parse_frequency(value) for key, value in pairs.items()}
    n_cpus = None if cores is None else int(read_amount("cores", cores, "cores").value)
    return Settings(n_cpus=n_cpus, **clocks)


def split_pairs(text: str, keys: tuple[str, ...] = KEYS) -> dict[str, str]:
    """Keys and values of ``gpu=612MHz,cores=4``, each key once; raises UsageError."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise UsageError(
                f"{part.strip()!r} is not a setting", fix=f"write key=value, such as {EXAMPLE}"
            )
        key = setting_key(name, keys)
        if key in pairs:
            raise UsageError(f"{key} is set twice in {text!r}", fix="keep one of them")
        pairs[key] = value
    return pairs


def setting_key(name: str, keys: tuple[str, ...] = KEYS) -> str:
    """The key that ``name`` stands for; raises UsageError that says what can be set."""
    key = name.strip().lower()
    if key in _SM_KEYS:
        raise UsageError(f"{name} cannot be set", fix=_SMS_FIXED)
    if key not in keys:
        key = _ALIASES.get(key, key)
    if key not in keys:
        raise UsageError(f"{name!r} is nothing that can be set", fix=f"use {', '.join(keys)}")
    return key
