"""The simulated nvpmodel: shows and sets the power mode of its tree.

What it prints follows recorded output of the real one (-q, -p --verbose, the NVPM lines of a
file that cannot be opened, the question before a reboot). Its exit codes are made up.
"""

from __future__ import annotations

import argparse
import glob
import re
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mansard.simulator.tools.board import BoardTree, fail, find_board, hang

_HEADER = re.compile(r"<\s*(PARAM|POWER_MODEL|PM_CONFIG)\s+(.*?)\s*>")
_FIELD = re.compile(r"(\w+)=(\S+)")


class ConfParam(NamedTuple):
    """A PARAM section: argument -> path."""

    kind: str
    name: str
    paths: dict[str, str]


class ConfMode(NamedTuple):
    """A POWER_MODEL section: (param, argument, value) in order."""

    id: int
    name: str
    settings: list[tuple[str, str, str]]


class Conf(NamedTuple):
    """The file; ``errors`` holds a line for each of its lines that means nothing."""

    params: dict[str, ConfParam]
    modes: dict[int, ConfMode]
    default: int | None
    errors: list[str]


def parse(text: str) -> Conf:
    """What the file says."""
    conf = Conf({}, {}, None, [])
    param: ConfParam | None = None
    mode: ConfMode | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        header = _HEADER.fullmatch(line)
        words = line.split()
        try:
            if not line:
                continue
            if header:
                fields = dict(_FIELD.findall(header[2]))
                param = mode = None
                if header[1] == "PARAM":
                    param = conf.params[fields["NAME"]] = ConfParam(
                        fields["TYPE"], fields["NAME"], {}
                    )
                elif header[1] == "POWER_MODEL":
                    key = int(fields["ID"])
                    mode = conf.modes[key] = ConfMode(key, fields["NAME"], [])
                else:
                    conf = conf._replace(default=int(fields["DEFAULT"]))
            elif param is not None and len(words) >= 2:
                param.paths[words[0]] = " ".join(words[1:])
            elif mode is not None and len(words) == 3:
                mode.settings.append((words[0], words[1], words[2]))
            else:
                raise ValueError(line)
        except (KeyError, ValueError):
            conf.errors.append(f"NVPM ERROR: Error parsing line {number}")
    return conf


CONF = "/etc/nvpmodel.conf"
STATUS = "var/lib/nvpmodel/status"
_STATIC, _STATIC_TEXT = "GPU_PG_MASK", "gpu_pg_mask_param="  # read when the driver is loaded
_UNCAPPED = 9223372036854775807  # how the tool prints -1
_HALF_WAY = 255  # the exit code of OE4T/meta-tegra issue 1864


def main(script: str, arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    board = find_board(script)
    options = _options(arguments)
    if board.fault("nvpmodel_hangs"):
        hang()
        return 1
    file = board.path(CONF) if options.file == CONF else Path(options.file)
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        return fail(f"NVPM ERROR: Error opening {options.file}: {error.errno}")
    conf = parse(text)
    for line in conf.errors:
        fail(line)
    if not conf.modes:
        return fail(f"NVPM ERROR: failed to parse file {options.file}")
    if options.mode is not None:
        return set_mode(board, conf, options.mode)
    if options.print:
        return _print_conf(board, conf, options.file)
    return _query(board, conf, options.verbose)


def _options(arguments: list[str]) -> argparse.Namespace:
    # A fixed width: argparse imports many modules to find the terminal's.
    formatter = partial(argparse.HelpFormatter, width=80)
    parser = argparse.ArgumentParser(
        prog="nvpmodel", description="simulated by Mansard", formatter_class=formatter
    )
    parser.add_argument("-q", "--query", action="store_true")
    parser.add_argument("-p", "--print", action="store_true")
    parser.add_argument("-m", "--mode", type=int)
    parser.add_argument("-f", "--file", default=CONF)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(arguments)


def current(board: BoardTree) -> int | None:
    """The mode in the status file: pmode:0002 is 2."""
    text = board.read(STATUS) or ""
    digits = text.partition("pmode:")[2][:4]
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def set_mode(board: BoardTree, conf: Conf, wanted: int) -> int:
    """Apply a mode to the tree, or say why not."""
    mode = conf.modes.get(wanted)
    if mode is None:
        return fail(f"NVPM ERROR: power mode {wanted} is not defined")
    if board.fault("nvpmodel_refuses"):
        return fail("NVPM ERROR: failed to set power mode!")
    if _needs_reboot(board, conf, mode) and not _agrees_to_reboot(wanted):
        return fail("NVPM ERROR: optMask is 1, no request for power mode")
    for setting in mode.settings:
        if _is_busy(board, conf, setting):
            board.note_online()
            fail("NVPM ERROR: failed to set power mode!")
            fail(f"NVPM ERROR: optMask is {mode.id}, no request for power mode")
            return _HALF_WAY
        _apply(board, conf, setting)
    board.note_online()
    board.path(STATUS).write_text(f"pmode:{wanted:04d}\n")
    return 0


def _is_busy(board: BoardTree, conf: Conf, setting: tuple[str, str, str]) -> bool:
    """Whether a fault keeps a gating mask from being changed; says so as boards do."""
    errno = board.fault("gating_busy")
    name, argument, value = setting
    path = _path(board, conf.params[name], argument) if name in conf.params else None
    if not errno or not argument.endswith("PG_MASK") or path is None or board.read(path) == value:
        return False
    fail(f"NVPM ERROR: Error writing {value} to {path}: {errno}")
    fail(f"NVPM ERROR: failed to write PARAM {name}: ARG {argument}: PATH: {path} VAL: {value}")
    return True


def _needs_reboot(board: BoardTree, conf: Conf, mode: ConfMode) -> bool:
    """Whether a fault says so, or Thor's driver would have to be loaded with another mask."""
    if mode.id == current(board):
        return False
    for name, argument, value in mode.settings:
        if argument == _STATIC:
            path = _path(board, conf.params[name], argument)
            if path and board.read(path) != f"{_STATIC_TEXT}{value}":
                return True
    return mode.id in (board.fault("reboot_modes") or [])


def _agrees_to_reboot(wanted: int) -> bool:
    sys.stdout.write(f"NVPM WARN: Reboot required for changing to this power mode: {wanted}\n")
    sys.stdout.write("NVPM WARN: DO YOU WANT TO REBOOT NOW? enter YES/yes to confirm:\n")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() == "yes"


def _apply(board: BoardTree, conf: Conf, setting: tuple[str, str, str]) -> None:
    name, argument, value = setting
    param = conf.params.get(name)
    path = _path(board, param, argument) if param else None
    if param is None or path is None:
        fail(f"NVPM ERROR: PARAM {name}: ARG {argument} is not defined")
        return
    try:
        board.write(path, _value(board, param, (argument, value), path))
    except OSError as error:
        fail(f"NVPM ERROR: Error opening {path}: {error.errno}")
        fail(f"NVPM ERROR: failed to write PARAM {name}: ARG {argument}: PATH {path}: VAL: {value}")


def _path(board: BoardTree, param: ConfParam, argument: str) -> str | None:
    """The path of a newer kernel where this tree has it, else the plain one."""
    newer = param.paths.get(f"{argument}_KNEXT")
    if newer and board.path(newer).exists():
        return newer
    plain = param.paths.get(argument)
    if plain and param.kind == "HWMON":
        folder, _, file = plain.partition(" ")
        files = sorted(glob.glob(f"{board.path(folder)}/hwmon*/{file}"))  # noqa: PTH207
        return f"/{files[0][len(str(board.root)) :].lstrip('/')}" if files else None
    return plain


def _value(board: BoardTree, param: ConfParam, setting: tuple[str, str], path: str) -> str:
    name, value = setting
    if name == _STATIC:
        return f"{_STATIC_TEXT}{value}"
    if param.kind != "CLOCK":
        return value
    table_path = _path(board, param, "FREQ_TABLE")
    table = [int(word) for word in (board.read(table_path) or "").split()] if table_path else []
    highest = max(table, default=board.info.get("cap_max", {}).get(path, _UNCAPPED))
    number = int(value)
    if number < 0:
        number = highest
    return str(min(max(number, min(table, default=0)), highest))


def _query(board: BoardTree, conf: Conf, verbose: bool) -> int:
    now = current(board)
    mode = conf.modes.get(conf.default if now is None else now)  # type: ignore[arg-type]
    if mode is None:
        return fail("NVPM ERROR: no power mode is set")
    if verbose:
        _compare(board, conf, mode)
    sys.stdout.write(f"NV Power Mode: {mode.name}\n{mode.id}\n")
    for line in board.fault("query_errors") or []:
        sys.stdout.write(f"NVPM ERROR: {line}\n")
    return 0


def _compare(board: BoardTree, conf: Conf, mode: ConfMode) -> None:
    for name, argument, value in mode.settings:
        param = conf.params.get(name)
        path = _path(board, param, argument) if param else None
        real = board.read(path) if path else None
        sys.stdout.write(
            f"NVPM VERB: PARAM {name}: ARG {argument}: PATH {path}: "
            f"REAL_VAL: {real} CONF_VAL: {value}\n"
        )


def _print_conf(board: BoardTree, conf: Conf, name: str) -> int:
    default = conf.modes.get(conf.default) if conf.default is not None else None
    lines = [
        f"Config file: {name}",
        f"parsing done for {name}",
        f"PM_CONFIG: DEFAULT={default.name if default else ''}({conf.default})",
    ]
    for param in conf.params.values():
        lines.append(f"PARAM TYPE={param.kind} NAME={param.name}")
        names = [argument for argument in param.paths if not argument.endswith("_KNEXT")]
        lines.extend(f"{argument} {_path(board, param, argument)}" for argument in names)
    for mode in conf.modes.values():
        lines.extend(("", f"POWER_MODEL: ID={mode.id} NAME={mode.name}"))
        lines.extend(
            f"{param} {argument} {_UNCAPPED if value == '-1' else value}"
            for param, argument, value in mode.settings
        )
    lines.append("")
    printed = [f"NVPM VERB: {line}" for line in lines]
    printed.insert(2, f"succeed to parse file {name}.")
    printed.insert(0, "NVPM VERB: # simulated by Mansard")
    sys.stdout.write("\n".join(printed) + "\n")
    return 0
