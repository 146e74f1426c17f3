"""Recorded language models on Jetsons: at best, and calibrated, beside the truth.

    python benchmarks/recorded_language_models.py

At best: the roofs of the hardware at the clocks of the mode. No recorded decode may be faster; one
that is contradicts its own description. Calibrated: of each author's board and engine one model, or
one mode, is known, and the others are predicted. Beside it the rule that a sceptic writes: bytes
over bandwidth, times the median ratio of what is known; for joules, times its median power. Errors
are of logarithms, in percent: median, nine of ten, worst.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median

import numpy as np
from language_models.predicting import bandwidth, network, predictions, traffic_bytes
from language_models.recordings import Recorded, recordings

# Engines that answer a repeated prompt from their cache: no prefill of theirs is known.
CACHING = ("vllm", "sglang", "trtllm")
_MOST_STAGES = 4  # of a model in a mode, evenly over its contexts


def main() -> None:
    """Print both tables."""
    rows = [row for row in recordings() if row.is_decode or row.engine not in CACHING]
    at_best(rows)
    calibrated(rows, "model")
    calibrated(rows, "mode")


def at_best(rows: Sequence[Recorded]) -> None:
    """Recorded time over the time at best, by author and engine."""
    ratios: dict[tuple[str, str, bool], list[tuple[float, Recorded]]] = defaultdict(list)
    for of_model in _grouped(rows, lambda row: (row.board, row.model)).values():
        predicted = predictions(of_model)
        for row in of_model:
            time_s = predicted[network(row), row.mode].time_s
            if time_s is not None:
                key = (row.author, row.engine, row.is_decode)
                ratios[key].append((row.time_s / time_s, row))
    print("| author | engine | phase | n | least | median | most | below 1 |")
    print("|---|---|---|---|---|---|---|---|")
    for (author, engine, is_decode), pairs in sorted(ratios.items()):
        values = [ratio for ratio, _ in pairs]
        below = sorted({f"{row.model} {ratio:.2f}" for ratio, row in pairs if ratio < 1})
        print(
            f"| {author} | {engine} | {'decode' if is_decode else 'prefill'} | {len(values)} | "
            f"{min(values):.2f} | {median(values):.2f} | {max(values):.2f} | {', '.join(below)} |"
        )


def calibrated(rows: Sequence[Recorded], known: str) -> None:
    """Errors of the other models, or modes, where one is ``known``."""
    print(
        f"\n| author | engine | phase | {known}s | n | ours | held | bytes / bandwidth x ratio "
        "| J: ours | J: the rule |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (author, engine, _), of_board in _grouped(
        rows, lambda row: (row.author, row.engine, row.board)
    ).items():
        chosen = _thinned(of_board)
        parts = _grouped(chosen, lambda row: (getattr(row, known),))
        if len(parts) > 1:
            errors = _Errors()
            for part in parts.values():
                errors.add(part, [row for row in chosen if row not in part])
            for phase in ("decode", "prefill"):
                errors.show(str(author), str(engine), phase, len(parts))


class _Errors:
    """Errors of what was left out, by phase."""

    def __init__(self) -> None:
        self._ours: dict[str, list[float]] = defaultdict(list)
        self._held: dict[str, list[bool]] = defaultdict(list)
        self._naive: dict[str, list[float]] = defaultdict(list)
        self._energy: dict[str, list[float]] = defaultdict(list)
        self._naive_energy: dict[str, list[float]] = defaultdict(list)

    def add(self, known: Sequence[Recorded], wanted: Sequence[Recorded]) -> None:
        predicted = predictions(wanted, known)
        for row in wanted:
            phase = "decode" if row.is_decode else "prefill"
            ratios = [one.time_s / _least_s(one) for one in known if one.is_decode == row.is_decode]
            if ratios:
                self._naive[phase].append(_error(median(ratios) * _least_s(row), row.time_s))
            powers_w = [one.power_w for one in known if one.power_w and one.is_decode]
            if ratios and powers_w and row.power_w:
                rule_j = median(ratios) * _least_s(row) * median(powers_w)
                self._naive_energy[phase].append(_error(rule_j, row.time_s * row.power_w))
            one = predicted.get((network(row), row.mode))
            if one is None or one.time_s is None:
                continue
            self._ours[phase].append(_error(one.time_s, row.time_s))
            if one.low_s is not None and one.high_s is not None:
                self._held[phase].append(one.low_s <= row.time_s <= one.high_s)
            if one.power_w is not None and row.power_w is not None:
                joules = one.time_s * one.power_w, row.time_s * row.power_w
                self._energy[phase].append(_error(*joules))

    def show(self, author: str, engine: str, phase: str, n_models: int) -> None:
        values = self._ours[phase]
        if values:
            held = self._held[phase]
            share = f"{sum(held) / len(held):.0%}" if held else "-"
            print(
                f"| {author} | {engine} | {phase} | {n_models} | {len(values)} | {_shown(values)} "
                f"| {share} | {_shown(self._naive[phase])} | {_shown(self._energy[phase])} "
                f"| {_shown(self._naive_energy[phase])} |"
            )


def _least_s(row: Recorded) -> float:
    return traffic_bytes(row) / bandwidth(row)


def _error(value: float, truth: float) -> float:
    return abs(math.log(value / truth))


def _shown(errors: Sequence[float]) -> str:
    """Median, nine of ten and worst, in percent."""
    if not errors:
        return "-"
    return " / ".join(f"{100 * float(np.quantile(errors, at)):.0f}" for at in (0.5, 0.9, 1.0))


def _thinned(rows: Iterable[Recorded]) -> list[Recorded]:
    """At most ``_MOST_STAGES`` stages of each model, mode and phase."""
    chosen: list[Recorded] = []
    for of_phase in _grouped(rows, lambda row: (row.model, row.mode, row.is_decode)).values():
        ordered = sorted(of_phase, key=lambda row: int(row.stage.split()[1]))
        last = len(ordered) - 1
        places = {round(last * at / (_MOST_STAGES - 1)) for at in range(_MOST_STAGES)}
        chosen += [ordered[at] for at in sorted(places)]
    return chosen


def _grouped(
    rows: Iterable[Recorded], key: Callable[[Recorded], tuple[object, ...]]
) -> dict[tuple[object, ...], list[Recorded]]:
    groups: dict[tuple[object, ...], list[Recorded]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


if __name__ == "__main__":
    main()
