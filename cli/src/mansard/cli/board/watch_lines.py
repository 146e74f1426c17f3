"""What a watched board does as lines of text: a screen, or one line for each look."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from math import ceil

from mansard.core.records import BoardSample, CpuNow, Limit, ZoneNow
from mansard.core.text import cpu_list, printable

Span = tuple[str, str]  # text, and its style: empty, dim, bold, good, warn, bad
Line = list[Span]
WIDTH = 80
_LABEL = 10  # columns
_BAR = 20  # in WIDTH columns; wider lines have wider bars
_WIDEST_BAR = 60
_EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"
_NEAR_C = 10.0  # to the trip point: worth a look
_WARM_C = 85.0  # of a zone that has none
_CAUSES = {
    "thermal": "throttled",
    "over-current": "throttled",
    "power": "throttled",
    "cap": "capped",
    "unknown": "slow",
    "mode": "limit",
}
_NAMES = {
    "mode": "mode",
    "memory_clock_hz": "memory clock",
    "memory_cap_hz": "memory clock",
    "memory_busy_share": "memory use",
    "power_w": "power",
    "energy_j": "power",
    "n_throttle_events": "throttling",
    "n_overcurrent_events": "over-current",
    "gpu_processes": "GPU processes",
    "fan_speed_rpm": "fan",
    "fan_drive_share": "fan",
    "engines": "engines",
}
_MINOR = ("fan_speed_rpm", "fan_drive_share", "engines", "mode")  # not worth a line of a screen


_ASCII = str.maketrans(
    {"█": "#", "·": ".", "–": "-", "…": "~", "°": " ", **dict.fromkeys(_EIGHTHS[1:8], ".")}
    | {level: str(at) for at, level in enumerate(LEVELS[:7], 1)}
)


def plain(line: Line, *, can_draw: bool = True) -> str:
    """A line without its styles; not ``can_draw``: in ASCII alone."""
    text = "".join(text for text, _ in line).rstrip()
    return text if can_draw else text.translate(_ASCII)


def in_ascii(line: Line) -> Line:
    """A line for a terminal that shows no other characters."""
    return [(text.translate(_ASCII), style) for text, style in line]


def board_lines(sample: BoardSample, width: int = WIDTH) -> list[Line]:
    """All of one look, at most ``width`` columns wide."""
    lines = [_head(sample, width), *_use(sample, _bar_width(width)), *_temperatures(sample, width)]
    lines += _rails(sample, width)
    lines += _limits(sample, width)
    lines += _processes(sample, width)
    lines += _unread(sample, width)
    return [_cut(line, width) for line in lines]


def fitted(lines: Sequence[Line], height: int) -> list[Line]:
    """As many lines as there is room for; the last tells how many are missing."""
    if len(lines) <= height:
        return list(lines)
    n_missing = len(lines) - height + 1
    return [
        *lines[: max(height - 1, 0)],
        [(f"… {n_missing} more lines: enlarge the window", "dim")],
    ]


HEAD_OF_ROWS = (
    f"{'time':>8} {'CPU %':>5} {'MHz':>5} {'GPU %':>5} {'MHz':>5} {'EMC %':>5} {'MHz':>5}"
    f" {'GB':>5} {'°C':>5} {'W':>6}  limits"
)


def row(sample: BoardSample, name: str = "") -> str:
    """One look as one line, for a pipe."""
    gpu = sample.gpus[0] if sample.gpus else None
    used = sample.memory_used_bytes
    cells = (
        time.strftime("%H:%M:%S", time.localtime(sample.time_s)),
        _number(percent(mean(cpu.busy_share for cpu in sample.cpus)), 5, 0),
        _number(mega(max(known(cpu.clock_hz for cpu in sample.cpus), default=None)), 5, 0),
        _number(percent(gpu.busy_share if gpu else None), 5, 0),
        _number(mega(gpu.clock_hz if gpu else None), 5, 0),
        _number(percent(sample.memory_busy_share), 5, 0),
        _number(mega(sample.memory_clock_hz), 5, 0),
        _number(None if used is None else used / 1e9, 5, 1),
        _number(hottest_c(sample.zones), 5, 1),
        _number(sample.power_w, 6, 2),
    )
    causes = dict.fromkeys(one.cause for one in sample.limits if one.is_throttling)
    words = ", ".join(causes) or ("-" if sample.n_throttle_events is not None else "not readable")
    return printable(f"{' '.join(cells)}  {words}{f'  {name}' if name else ''}")


def brief_lines(name: str, sample: BoardSample | None, why: str, width: int) -> list[Line]:
    """One of several boards in two lines; ``why``: it does not answer."""
    name = printable(name, 200)
    title: Line = [(f"{name if len(name) <= 19 else f'…{name[-18:]}':<19} ", "bold")]
    if sample is None:
        return [_cut([*title, (why or "connecting …", "warn" if why else "dim")], width)]
    gpu = sample.gpus[0] if sample.gpus else None
    facts = (
        f"{sample.mode or '–':<8.8}",
        f"CPU {_number(percent(mean(cpu.busy_share for cpu in sample.cpus)), 3, 0)} %",
        f"GPU {_number(percent(gpu.busy_share if gpu else None), 3, 0)} %"
        f" {_number(mega(gpu.clock_hz if gpu else None), 4, 0)} MHz",
        f"{_number(hottest_c(sample.zones), 4, 0)} °C",
        f"{_number(sample.power_w, 5, 1)} W",
    )
    throttled = [one for one in sample.limits if one.is_throttling]
    style, words = "good", "not throttled"
    if throttled:
        style, words = "bad", throttled[0].why
    elif why:
        style, words = "warn", why
    elif sample.n_throttle_events is None:
        style, words = "dim", "throttling is not readable"
    lines = [[*title, ("  ".join(facts), "")], [("  ", ""), (words, style)]]
    return [_cut(line, width) for line in lines]


def _head(sample: BoardSample, width: int) -> Line:
    clock = time.strftime("%H:%M:%S", time.localtime(sample.time_s))
    right = f"{sample.mode or ''}  {clock}  for {_duration(sample.watched_s)}"
    name = printable(sample.board, 200)
    is_said = sample.source == "measured" or sample.source in name
    label = "" if is_said else f" ({sample.source})"
    room = max(width - len(right) - len(label) - 1, 8)
    if len(name) > room:  # its end says whether it is simulated, or which host
        name = f"{name[: room // 2]}…{name[1 + room // 2 - room :]}"
    return [(f"{name}{label}".ljust(room + len(label)), "bold"), (f" {right}", "")]


def _bar_width(width: int) -> int:
    return min(_BAR + max(width - WIDTH, 0), _WIDEST_BAR)


def _use(sample: BoardSample, n_bar: int) -> list[Line]:
    lines = [_cpu_line(cpus, n_bar) for cpus in _alike(sample.cpus)]
    for gpu in sample.gpus:
        words = _clock(gpu.clock_hz, gpu.cap_hz)
        if gpu.memory_used_bytes is not None and gpu.memory_total_bytes:
            words += f"  {_gigabytes(gpu.memory_used_bytes, gpu.memory_total_bytes)}"
        name = gpu.gpu if len(sample.gpus) > 1 else "GPU"
        lines.append([*_bar(name, gpu.busy_share, n_bar), (words, "")])
    if sample.memory_clock_hz is not None or sample.memory_busy_share is not None:
        words = _clock(sample.memory_clock_hz, sample.memory_cap_hz)
        lines.append([*_bar("bandwidth", sample.memory_busy_share, n_bar), (words, "")])
    used, total = sample.memory_used_bytes, sample.memory_total_bytes
    if used is not None and total:
        words = _gigabytes(used, total)
        if sample.swap_used_bytes is not None and sample.swap_total_bytes:
            words += f"  swap {_gigabytes(sample.swap_used_bytes, sample.swap_total_bytes)}"
        lines.append([*_bar("memory", used / total, n_bar), (words, "")])
    if sample.fan_drive_share is not None or sample.fan_speed_rpm is not None:
        rpm = sample.fan_speed_rpm
        words = "" if rpm is None else f"{rpm:.0f} rpm"
        lines.append([*_bar("fan", sample.fan_drive_share, n_bar, is_load=False), (words, "")])
    if sample.engines:
        lines.append([(f"{'engines':<{_LABEL}} ", "dim"), (", ".join(sample.engines), "")])
    return lines


def _alike(cpus: Iterable[CpuNow]) -> list[list[CpuNow]]:
    """CPUs by the cap of their clock: those of one kind."""
    by_cap: dict[float | None, list[CpuNow]] = {}
    for cpu in cpus:
        by_cap.setdefault(cpu.cap_hz, []).append(cpu)
    return list(by_cap.values())


def _cpu_line(cpus: Sequence[CpuNow], n_bar: int) -> Line:
    clocks = known(cpu.clock_hz for cpu in cpus)
    low, high = (min(clocks), max(clocks)) if clocks else (None, None)
    words = _clock(high, cpus[0].cap_hz)
    if low is not None and high is not None and low < 0.95 * high:
        words = f"{low / 1e6:.0f}–{words.lstrip()}"
    levels = "".join(
        "?" if cpu.busy_share is None else LEVELS[min(int(cpu.busy_share * 8), 7)]
        for cpu in cpus[:16]
    )
    name = f"CPU {cpu_list([cpu.cpu for cpu in cpus])}"
    share = mean(cpu.busy_share for cpu in cpus)
    return [*_bar(name, share, n_bar), (f"{words:<22}", ""), (levels, "dim")]


def _bar(name: str, share: float | None, n_bar: int, *, is_load: bool = True) -> Line:
    label = (f"{name:<{_LABEL}.{_LABEL}} ", "dim")
    if share is None:
        return [label, (f"{'–':^{n_bar}}", "dim"), (f"{'–':>4} %  ", "dim")]
    eighths = round(share * n_bar * 8)
    whole, part = divmod(eighths, 8)
    drawn = "█" * whole + (_EIGHTHS[part] if part else "")
    style = "warn" if is_load and share >= 0.9 else "good"
    rest = "·" * (n_bar - len(drawn))
    return [label, (drawn, style), (rest, "dim"), (f"{100 * share:4.0f} %  ", "")]


def _temperatures(sample: BoardSample, width: int) -> list[Line]:
    words: list[Span] = []
    for zone in sample.zones:
        if zone.temperature_c is None:
            continue
        trip_c = zone.trip_c if zone.trip_c is not None else _WARM_C + _NEAR_C
        over = zone.temperature_c - trip_c
        style = "bad" if over >= 0 else "warn" if over >= -_NEAR_C else ""
        name = printable(zone.zone, 24).removesuffix("-thermal").removesuffix("-therm")
        words.append((f"{name} {zone.temperature_c:.1f}", style))
    return _flowed("°C", words, width)


def _rails(sample: BoardSample, width: int) -> list[Line]:
    cells = [(rail.rail, rail.power_w, rail.energy_j) for rail in sample.rails]
    if not cells:
        return []
    n_columns = 2 if width >= 76 and len(cells) > 3 else 1
    room = min((width - 2) // 2, 39)
    texts = [_rail(*cell, room) for cell in cells]
    n_lines = ceil(len(texts) / n_columns)
    lines: list[Line] = []
    for at in range(n_lines):
        pair = texts[at::n_lines]
        lines.append([("  ".join(pair), "")])
    if sample.power_w is not None:
        gaps = f", {sample.unmetered_s:.0f} s not metered" if sample.unmetered_s >= 1 else ""
        lines.append(
            [(_rail("board", sample.power_w, sample.energy_j, room), "bold"), (gaps, "warn")]
        )
    return lines


def _rail(name: str, power_w: float | None, energy_j: float | None, room: int) -> str:
    joules = "–" if energy_j is None else f"{energy_j:.0f}"
    numbers = f"{_number(power_w, 7, 2)} W {joules:>9} J"
    n_label = max(room - len(numbers), 8)  # a narrower window cuts the numbers
    return f"{printable(name, 40)[: n_label - 1]:<{n_label}}{numbers}"


def _limits(sample: BoardSample, width: int) -> list[Line]:
    lines: list[Line] = []
    if not any(limit.is_throttling for limit in sample.limits):
        if sample.n_throttle_events is None:
            why = sample.unknown["n_throttle_events"]
            lines += _wrapped("throttled", f"not readable: {why}", "dim", width)
        else:
            lines.append([(f"{'throttled':<{_LABEL}} ", "dim"), ("no", "good")])
    for limit in sample.limits:
        label = "limit" if limit.cause == "power" and not limit.is_throttling else None
        lines += _wrapped(label or _CAUSES[limit.cause], limit.why, _style_of(limit), width)
    counts = (
        ("throttled", sample.n_throttle_events),
        ("over-current", sample.n_overcurrent_events),
    )
    seen = [f"{name} {'once' if n == 1 else f'{n} times'}" for name, n in counts if n]
    if seen:
        words = f"since the start: {', '.join(seen)}"
        lines.append([(" " * (_LABEL + 1), ""), (words, "warn")])
    return lines


def _style_of(limit: Limit) -> str:
    return "bad" if limit.is_throttling else "dim"


def _processes(sample: BoardSample, width: int) -> list[Line]:
    if sample.gpu_processes is None:
        return []
    words = ", ".join(sample.gpu_processes) or "nobody"
    return _wrapped("GPU users", words, "", width)[:2]


def _unread(sample: BoardSample, width: int) -> list[Line]:
    """What cannot be read, with the remedy; one line for each reason."""
    why: dict[str, list[str]] = {}
    for field, reason in sample.unknown.items():
        if field in _NAMES and field not in _MINOR and field != "n_throttle_events":
            names = why.setdefault(reason, [])
            if _NAMES[field] not in names:
                names.append(_NAMES[field])
    for zone in sample.zones:
        if zone.temperature_c is None:
            reason = zone.unknown["temperature_c"]
            why.setdefault(reason, []).append(printable(zone.zone, 24))
    lines: list[Line] = []
    said: set[str] = set()
    for reason, names in why.items():
        clauses = [clause.removeprefix("NVML: ") for clause in reason.split("; ")]
        fresh = "; ".join(clause for clause in clauses if clause not in said)
        said.update(clauses)
        text = f"{', '.join(names)}: {fresh or 'for a reason above'}"
        lines += _wrapped("no reading", text, "dim", width)
    return lines


def _wrapped(label: str, text: str, style: str, width: int) -> list[Line]:
    import textwrap

    room = max(width - _LABEL - 1, 20)
    pieces = textwrap.wrap(printable(text), room, break_on_hyphens=False) or [""]
    heads = [f"{label:<{_LABEL}} ", *[" " * (_LABEL + 1)] * (len(pieces) - 1)]
    return [[(head, "dim"), (piece, style)] for head, piece in zip(heads, pieces, strict=True)]


def _flowed(label: str, words: Sequence[Span], width: int) -> list[Line]:
    lines: list[Line] = []
    line: Line = [(f"{label:<{_LABEL}} ", "dim")]
    room = width - _LABEL - 1
    for text, style in words:
        if room < len(text) + 2 and len(line) > 1:
            lines.append(line)
            line, room = [(" " * (_LABEL + 1), "")], width - _LABEL - 1
        line += [(text, style), ("  ", "")]
        room -= len(text) + 2
    return [*lines, line] if len(line) > 1 else lines


def _cut(line: Line, width: int) -> Line:
    """At most ``width`` columns, with a mark where something is missing."""
    if sum(len(text) for text, _ in line) <= width:
        return line
    parts: Line = []
    left = width - 1
    for text, style in line:
        parts.append((text[:left], style))
        left = max(left - len(text), 0)
    return [*parts, ("…", "dim")]


def _clock(hz: float | None, cap_hz: float | None) -> str:
    if hz is None and cap_hz is None:
        return ""
    cap = "" if cap_hz is None else f" of {cap_hz / 1e6:.0f}"
    return f"{'–' if hz is None else f'{hz / 1e6:.0f}':>4}{cap} MHz"


def _gigabytes(used: int, total: int) -> str:
    return f"{used / 1e9:.1f} of {total / 1e9:.1f} GB"


def hottest_c(zones: Iterable[ZoneNow]) -> float | None:
    """The highest temperature, of zones that measure one."""
    # A power management chip's zone is a constant (50 or 100) on older boards.
    return max(known(zone.temperature_c for zone in zones if zone.zone[:4] != "PMIC"), default=None)


def _duration(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"


def _number(value: float | None, width: int, digits: int) -> str:
    return f"{'–':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def percent(share: float | None) -> float | None:
    """A share as percent."""
    return None if share is None else 100 * share


def mega(hz: float | None) -> float | None:
    """A clock in MHz."""
    return None if hz is None else hz / 1e6


def known(values: Iterable[float | None]) -> list[float]:
    """``values`` without those that are unknown."""
    return [value for value in values if value is not None]


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known ones; None where there is none."""
    read = known(values)
    return sum(read) / len(read) if read else None
