"""The simulated jetson_clocks: shows clocks, locks them to their highest, stores, restores.

The lines of --show follow recorded ones of r35, r36 and r38; messages and exit codes of
failures are made up.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mansard.simulator.tools.board import CPU, BoardTree, fail, find_board, format_list
from mansard.simulator.tools.nvpmodel import CONF, current, parse

STORE = "/root/l4t_dfs.conf"
_EMC = "/sys/kernel/debug/bpmp/debug/clk/emc"
_USAGE = "usage: jetson_clocks [--show | --store [FILE] | --restore [FILE]] (simulated by Mansard)"


def main(script: str, arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    board = find_board(script)
    command = arguments[0] if arguments else "lock"
    file = Path(arguments[1]) if len(arguments) > 1 else board.path(STORE)
    if command == "--show":
        code = _show(board)
    elif command == "--store":
        code = _store(board, file)
    elif command == "--restore":
        code = _restore(board, file)
    elif command == "lock":
        code = _lock(board)
    else:
        return fail(_USAGE)
    return 1 if board.fault("jetson_clocks_fails") else code


def _cpu_file(cpu: int, name: str) -> str:
    return f"{CPU}/cpu{cpu}/cpufreq/{name}"


def _gpus(board: BoardTree) -> list[str]:
    return list(board.info.get("gpus", []))


def _show(board: BoardTree) -> int:
    info, family = board.info, board.info["family"]
    machine = board.read("/proc/device-tree/model")
    on = board.online()
    off = [cpu for cpu in board.list_cpus() if cpu not in on]
    new = family == "r38"
    ending = f", Offline CPUs: {format_list(off)}" if new else ""
    lines = [
        f"SOC family:{info['soc']}  Machine:{machine}",
        f"Online CPUs: {format_list(on)}{ending}",
        *(_cpu_line(board, cpu, new=new) for cpu in sorted(board.list_cpus(), key=str)),
        *(_gpu_line(board, folder) for folder in _gpus(board)),
    ]
    if family == "r36":
        lines.append(f"Active GPU TPCs: {_active_tpcs(board)}")
    lines.append(_memory_line(board))
    for name, cap in info.get("clocks", {}).items():
        value = board.read(cap)
        lines.append(f"{name}: Online=1 MinFreq=0 MaxFreq={value} CurrentFreq={value}")
    lines.append("FAN Dynamic Speed Control=simulated hwmon2_pwm1=66")
    lines.append(f"NV Power Mode: {_mode_name(board)}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _cpu_line(board: BoardTree, cpu: int, *, new: bool) -> str:
    names = ("scaling_governor", "scaling_min_freq", "scaling_max_freq", "scaling_cur_freq")
    governor, low, high, now = (board.read(_cpu_file(cpu, name)) for name in names)
    states = (board.read(f"{CPU}/cpu{cpu}/cpuidle/state{n}/disable") for n in (0, 1))
    wfi, c7 = ("0" if state == "1" else "1" for state in states)
    online = "" if new else f"Online={int(board.is_on(cpu))} "
    return (
        f"cpu{cpu}: {online}Governor={governor} MinFreq={low} MaxFreq={high} "
        f"CurrentFreq={now} IdleStates: WFI={wfi} c7={c7} "
    )


def _gpu_line(board: BoardTree, folder: str) -> str:
    low, high, now = (board.read(f"{folder}/{name}_freq") for name in ("min", "max", "cur"))
    return f"GPU MinFreq={low} MaxFreq={high} CurrentFreq={now}"


def _memory_line(board: BoardTree) -> str:
    folder = board.info.get("bwmgr")
    names = ("min_freq", "max_freq") if folder else ("min_rate", "max_rate")
    low, high = (board.read(f"{folder or _EMC}/{name}") for name in names)
    lock = board.read(f"{_EMC}/mrq_rate_locked") or 0
    rate = board.read(board.info["emc_rate"])
    return f"EMC MinFreq={low} MaxFreq={high} CurrentFreq={rate} FreqOverride={lock}"


def _active_tpcs(board: BoardTree) -> int:
    n_tpcs = int(board.info.get("n_tpcs", 0))
    mask = board.number(f"{board.info.get('gpu_folder')}/tpc_pg_mask") or 0
    return n_tpcs - bin(mask & ((1 << n_tpcs) - 1)).count("1")


def _mode_name(board: BoardTree) -> str:
    mode = parse(board.read(CONF) or "").modes.get(current(board) or 0)
    return mode.name if mode else "unknown"


def _pairs(board: BoardTree) -> list[tuple[str, str]]:
    """The lowest and the highest frequency of every clock that can be locked."""
    pairs = [
        (_cpu_file(cpu, "scaling_min_freq"), _cpu_file(cpu, "scaling_max_freq"))
        for cpu in board.online()
    ]
    folders = [*_gpus(board), *filter(None, [board.info.get("bwmgr")])]
    return pairs + [(f"{folder}/min_freq", f"{folder}/max_freq") for folder in folders]


def _singles(board: BoardTree) -> list[str]:
    """Everything else that locking changes."""
    idle = [
        f"{CPU}/cpu{cpu}/cpuidle/state{state}/disable" for cpu in board.online() for state in (0, 1)
    ]
    railgate = f"{board.info.get('gpu_folder')}/railgate_enable"
    paths = [*idle, railgate, f"{_EMC}/mrq_rate_locked"]
    return [path for path in paths if board.path(path).exists()]


def _lock(board: BoardTree) -> int:
    try:
        for low, high in _pairs(board):
            board.write(low, board.read(high) or "0")
        for path in _singles(board):
            board.write(path, "0" if path.endswith("railgate_enable") else "1")
        if board.info.get("bwmgr"):
            return 0
        cap = board.number(board.info["emc_cap"]) if board.info.get("emc_cap") else None
        highest = board.number(f"{_EMC}/max_rate") or 0
        board.write(f"{_EMC}/rate", str(min(cap or highest, highest)))
    except OSError as error:
        return fail(f"Error: cannot lock clocks: {error}")
    return 0


def _store(board: BoardTree, file: Path) -> int:
    paths = [path for pair in _pairs(board) for path in pair] + _singles(board)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{path}:{board.read(path)}\n" for path in paths))
    except OSError as error:
        return fail(f"Error: cannot store to {file}: {error}")
    return 0


def _restore(board: BoardTree, file: Path) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return fail(f"Error: {file} is missing: run jetson_clocks --store first")
    stored = dict(line.rpartition(":")[::2] for line in lines)
    try:
        for low, high in _pairs(board):
            if low in stored and high in stored:
                _set_pair(board, (low, high), (stored[low], stored[high]))
        for path in _singles(board):
            if path in stored:
                board.write(path, stored[path])
    except (OSError, ValueError) as error:
        return fail(f"Error: cannot restore: {error}")
    return 0


def _set_pair(board: BoardTree, paths: tuple[str, str], values: tuple[str, str]) -> None:
    # The lowest must never be above the highest, not even for a moment.
    order = (1, 0) if int(values[0]) > (board.number(paths[1]) or 0) else (0, 1)
    for which in order:
        board.write(paths[which], values[which])
