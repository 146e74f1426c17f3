"""The simulated tegrastats: one line each interval, in the form of the board's release.

Families and what root sees more than others follow the recorded lines of TX2 (r32), Xavier NX
(r35), Orin (r36) and Thor (r38). Values of engines that are not simulated are the recorded ones.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from mansard.simulator.tools.board import BoardTree, fail, find_board

_PID = "run/mansard-simulator/tegrastats.pid"


def main(script: str, arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    board = find_board(script)
    # A fixed width: argparse imports many modules to find the terminal's.
    formatter = partial(argparse.HelpFormatter, width=80)
    parser = argparse.ArgumentParser(
        prog="tegrastats", description="simulated by Mansard", formatter_class=formatter
    )
    parser.add_argument("--interval", type=int, default=1000, help="milliseconds")
    parser.add_argument("--logfile")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--stop", action="store_true")
    options = parser.parse_args(arguments)
    if options.stop:
        return _stop(board)
    board.path(_PID).write_text(f"{os.getpid()}\n")
    out = open(options.logfile, "a") if options.logfile else sys.stdout  # noqa: PTH123, SIM115
    try:
        _print_lines(board, out, max(0.001, options.interval / 1000))
    except BrokenPipeError:
        # The output is closed; what is left must not be flushed into the void at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        pass
    return 0


def _stop(board: BoardTree) -> int:
    pid = board.number(f"/{_PID}")
    if pid is None:
        return fail("tegrastats is not running")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    board.path(_PID).unlink(missing_ok=True)
    return 0


def _print_lines(board: BoardTree, out: Any, interval_s: float) -> None:
    parent, n = os.getppid(), 0
    ticks = _cpu_ticks(board)
    sums: dict[str, int] = {}
    due_s = time.monotonic()
    while os.getppid() == parent:
        due_s += interval_s
        time.sleep(max(0.0, due_s - time.monotonic()))
        n += 1
        now = _cpu_ticks(board)
        powers = _powers_mw(board)
        for label, power in powers.items():
            sums[label] = sums.get(label, 0) + power
        line = _line(board, _shares(ticks, now), powers, {k: v // n for k, v in sums.items()})
        ticks = now
        cut = board.fault("tegrastats_cut")
        out.write(line[: int(len(line) * cut)] + "\n" if cut else line + "\n")
        out.flush()


def _line(
    board: BoardTree, shares: dict[int, int], powers: dict[str, int], means: dict[str, int]
) -> str:
    family = board.info["family"]
    is_root = os.geteuid() == 0 and not board.fault("tegrastats_user")
    parts = [
        *([datetime.now().strftime("%m-%d-%Y %H:%M:%S")] if family != "r32" else []),
        *_memory(board),
        f"CPU [{','.join(_cpu(board, cpu, shares) for cpu in board.list_cpus())}]",
        *_engines(board, family, is_root=is_root),
        *(f"{name}@{_celsius(board, path)}C" for name, path in board.info["zones"]),
    ]
    unit = "" if family == "r32" else "mW"
    parts.extend(f"{label} {power}{unit}/{means[label]}{unit}" for label, power in powers.items())
    return " ".join(parts)


def _memory(board: BoardTree) -> list[str]:
    fields = dict(line.split(":", 1) for line in (board.read("/proc/meminfo") or "").splitlines())
    total, free = (int(fields[key].split()[0]) // 1024 for key in ("MemTotal", "MemFree"))
    parts = [f"RAM {total - free}/{total}MB (lfb {free // 4}x4MB)"]
    return parts if board.info["family"] == "r38" else [*parts, "SWAP 0/0MB (cached 0MB)"]


def _cpu(board: BoardTree, cpu: int, shares: dict[int, int]) -> str:
    if not board.is_on(cpu):
        return "off"
    path = f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"
    return f"{shares.get(cpu, 0)}%@{(board.number(path) or 0) // 1000}"


def _engines(board: BoardTree, family: str, *, is_root: bool) -> list[str]:
    memory_hz = board.number(board.info["emc_rate"]) or 0
    activity_khz = board.number(board.info["cactmon"]) if board.info.get("cactmon") else None
    memory = round(100 * (activity_khz or 0) * 1000 / memory_hz) if memory_hz else 0
    clocks = [board.number(f"{folder}/cur_freq") or 0 for folder in board.info["gpus"]]
    share = round((board.number(f"{board.info['gpus'][0]}/load") or 0) / 10)
    n_clocks = board.info["n_gpcs"]
    listed = ",".join([str(clocks[0] // 1_000_000)] * n_clocks)
    emc, rate = f"EMC_FREQ {memory}%", f"@{memory_hz // 1_000_000}"
    if family == "r38":
        return [emc + rate, f"GR3D_FREQ @[{listed}]", "VIC off", "APE 300"] if is_root else []
    if family == "r36":
        root = [emc + rate, f"GR3D_FREQ {share}%@[{listed}]", "VIC off", "OFA off", "APE 200"]
        return root if is_root else [f"GR3D_FREQ {share}%"]
    if not is_root:
        return [emc, f"GR3D_FREQ {share}%"]
    if family == "r35":
        return [emc + rate, f"GR3D_FREQ {share}%@[{listed}]", "VIC_FREQ 115", "APE 150"]
    return [emc + rate, f"GR3D_FREQ {share}%@{listed}", "APE 150", "MTS fg 0% bg 0%"]


def _celsius(board: BoardTree, path: str) -> str:
    return f"{(board.number(path) or 0) / 1000:g}"


def _powers_mw(board: BoardTree) -> dict[str, int]:
    """Rail -> mW, by the labels that are there; a carrier without the chip shows none."""
    powers = {}
    for rail in board.info["rails"]:
        folder, number = rail["folder"], int(rail["number"])
        names = {"ina3221": f"in{number}_label", "ina3221x": f"rail_name_{number - 1}"}
        text = board.read(f"{folder}/{names.get(rail['chip'], 'name')}")
        if text is not None:
            label = rail["label"] if rail["chip"] == "ina238" else text
            powers[label] = _rail_mw(board, rail)
    return powers


def _rail_mw(board: BoardTree, rail: dict[str, str]) -> int:
    folder, number = rail["folder"], int(rail["number"])
    if rail["chip"] == "ina238":
        return (board.number(f"{folder}/power1_input") or 0) // 1000
    if rail["chip"] == "ina3221x":
        return board.number(f"{folder}/in_power{number - 1}_input") or 0
    volt_mv = board.number(f"{folder}/in{number}_input") or 0
    return volt_mv * (board.number(f"{folder}/curr{number}_input") or 0) // 1000


def _cpu_ticks(board: BoardTree) -> dict[int, tuple[int, int]]:
    ticks = {}
    for line in (board.read("/proc/stat") or "").splitlines():
        words = line.split()
        if words and words[0].startswith("cpu") and words[0] != "cpu":
            counts = [int(word) for word in words[1:]]
            ticks[int(words[0][3:])] = (sum(counts) - counts[3], sum(counts))
    return ticks


def _shares(
    before: dict[int, tuple[int, int]], after: dict[int, tuple[int, int]]
) -> dict[int, int]:
    shares = {}
    for cpu, (busy, total) in after.items():
        old_busy, old_total = before.get(cpu, (0, 0))
        elapsed = total - old_total
        shares[cpu] = min(100, max(0, round(100 * (busy - old_busy) / elapsed))) if elapsed else 0
    return shares
