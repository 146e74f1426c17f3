"""Schedules held against baselines and other solvers, as tables in Markdown.

``PYTHONPATH=. python benchmarks/scheduling.py docs/results/scheduling.md``. Solvers that are not
installed (``make peers``) and recorded data that is not there are skipped by name. Times are the
machine's: measure them where nothing else runs. Parts of a page that is there can be made anew one
by one, as the drawn instances take minutes: ``--parts instance larger``.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
from schedules.artifact import orin_table, xavier_table
from schedules.instances import (
    ARTIFACT,
    ARTIFACT_STARTS,
    XAVIER,
    charged_on_entry,
    drawn,
    example,
    haxconn,
    only,
    published,
)

from mansard.core.records.schedule import ContentionSurface, PccsFit, Problem, Schedule
from mansard.scheduler.baselines import baselines, gain
from mansard.scheduler.contention import fit_pccs, losses, speed
from mansard.scheduler.search import Method, evaluate, solve
from reproductions.solvers.blind import Answer, score
from reproductions.solvers.cp_sat import solve_by_cp_sat
from reproductions.solvers.haxconn import solve_by_z3
from reproductions.solvers.highs import solve_by_highs
from reproductions.solvers.pccs import reference_fit

DATA = Path(__file__).resolve().parents[1] / "../shared/data/scheduling"
XAVIER_PEAK_BYTE_PER_S = 137e9  # NVIDIA's data sheet of the AGX Xavier
REPEATS = 21
Peer = Callable[..., "Answer | None"]
Z3 = "Z3 model of the artifact"
PEERS: dict[str, tuple[str, Peer]] = {
    Z3: ("z3", solve_by_z3),
    "CP-SAT, without contention": ("ortools", solve_by_cp_sat),
    "HiGHS, without contention": ("highspy", solve_by_highs),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="the file that is written")
    parser.add_argument("--instances", type=int, default=200, help="drawn problems")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a search for each problem")
    names = ("instance", "explained", "drawn", "larger", "contention", "recorded")
    parser.add_argument("--parts", nargs="+", choices=names, default=names, help="made anew")
    options = parser.parse_args(argv)
    solve(haxconn(XAVIER))  # what is compiled is compiled
    parts: dict[str, Callable[[], Iterator[str]]] = {
        "instance": lambda: one_instance(options.seconds),
        "explained": explained,
        "drawn": lambda: many_instances(options.instances, options.seconds),
        "larger": lambda: larger(options.seconds),
        "contention": contention,
        "recorded": recorded_tables,
    }
    kept = options.page.read_text().split("\n## ")[1:] if options.page.exists() else []
    page = ["\n".join(head())]
    for place, name in enumerate(names):
        if name in options.parts:
            page.append("\n".join(parts[name]()).removeprefix("## ").rstrip() + "\n")
        elif place < len(kept):
            page.append(kept[place])
    options.page.write_text("\n## ".join(page))
    return 0


def peers() -> dict[str, Peer]:
    """Those that are installed."""
    return {name: solver for name, (module, solver) in PEERS.items() if find_spec(module)}


def head() -> Iterator[str]:
    """What the page is."""
    yield "# Schedules against baselines and other solvers"
    yield ""
    machine = f"{os.cpu_count()} CPUs ({platform.machine()})"
    yield "`PYTHONPATH=. python benchmarks/scheduling.py docs/results/scheduling.md` on a machine"
    yield f"with {machine}, Python {platform.python_version()}. One simulator scores all schedules;"
    yield "group times are modelled or published ([scheduling.md](../use/scheduling.md)). A peer's"
    yield "schedule runs in its own order or first come first served, whichever is better."
    yield ""


def one_instance(seconds: float) -> Iterator[str]:
    """HaX-CoNN's instance, every method."""
    yield "## HaX-CoNN's instance: GoogleNet and AlexNet on a Xavier AGX"
    yield ""
    yield "Ten and eight groups on a GPU and a DLA, at most one change a network. Data of the"
    yield "artifact's solver (costs of changes and demands are its dummy data); contention fitted"
    yield "to the recorded matrix."
    missing = [name for name in PEERS if name not in peers()]
    if missing:
        yield f"Not installed, so left out: {', '.join(missing)}."
    for what, problem in (("With", haxconn(XAVIER)), ("Without", haxconn(None))):
        yield ""
        yield f"{what} contention:"
        yield ""
        yield "| method | solve, ms | its own makespan, ms | proved | simulated, ms | longer |"
        yield "|---|--:|--:|---|--:|--:|"
        ours = [solve(problem) for _ in range(REPEATS)]
        best = ours[0]
        middle = 1e3 * statistics.median(schedule.solve_s for schedule in ours)
        yield _row("**ours, exact**", middle, best.makespan_s, best.is_optimal, best, best)
        for name, solver in peers().items():
            answer = solver(problem, time_limit_s=seconds)
            if answer is None:
                yield f"| {name} | more than {seconds:g} s | – | no | – | – |"
                continue
            simulated = score(problem, answer, name)
            spent = 1e3 * answer.solve_s
            yield _row(name, spent, answer.makespan_s, answer.is_proved, simulated, best)
        simpler = baselines(problem)
        for schedule in simpler:
            yield _row(schedule.method, None, None, None, schedule, best)
        yield ""
        better = gain(best, simpler)
        if better is not None:
            yield f"Gain over the best baseline: {100 * better:.1f} %."
        longest = 1e3 * max(schedule.solve_s for schedule in ours)
        yield f"Ours is the median of {REPEATS}; the longest took {longest:.2f} ms."
    yield ""


def explained() -> Iterator[str]:
    """Which data, contention and order give which makespan of HaX-CoNN's instance."""
    shipped, constants = published(), "PCCS of the solver's constants, for each"
    settings = {
        "none": haxconn(None),
        "one fit of the recorded matrix for both": haxconn(XAVIER),
        constants: shipped,
        "the same, changes charged on entry": charged_on_entry(shipped),
        "the solver's rule: always, by own demand": replace(shipped, contention="haxconn"),
    }
    yield "## Which contention and which order give which makespan"
    yield ""
    yield "GoogleNet and AlexNet as shipped (`mansard multi schedule haxconn-googlenet-alexnet`)."
    yield "The solver's schedule moves GoogleNet from the GPU to the DLA at layer 52 and AlexNet"
    yield "from the DLA to the GPU at layer 2. All in ms:"
    yield ""
    yield (
        "| contention | best schedule | the solver's, first come | in its own order "
        "| in its best order |"
    )
    yield "|---|--:|--:|--:|--:|"
    rows = {name: _orders(problem) for name, problem in settings.items()}
    for name, times in rows.items():
        yield f"| {name} | {' | '.join(f'{1e3 * time_s:.3f}' for time_s in times)} |"
    best_s, first_s, _, ordered_s = rows["one fit of the recorded matrix for both"]
    yield ""
    longer, of_order, rest = (
        f"{100 * share:.1f}"
        for share in (
            first_s / best_s - 1,
            (first_s - ordered_s) / best_s,
            ordered_s / best_s - 1,
        )
    )
    yield f"- The solver's schedule takes {1e3 * first_s:.3f} ms first come first served, {longer}"
    yield f"  % more than the best, and {1e3 * ordered_s:.3f} ms in its best order: order explains"
    yield f"  {of_order} points, the assignment {rest}."
    yield "- A reader's simulation gave 2.915, 3.335, 3.463 and 3.076 ms: the second row."
    yield "- An earlier evaluator gave 2.771 ms, which agrees with PCCS for each accelerator"
    yield "  (third row to 0.2 %, fourth row exactly). HaX-CoNN and Mansard charge a change to the"
    yield "  accelerator that is left. It also gave 3.350, 4.249 and 4.792 ms for the solver's"
    yield "  schedule and whole networks, here"
    naive_s = sorted(
        evaluate(shipped, whole, "naive").makespan_s
        for whole in ((("gpu",) * 10, ("dla0",) * 8), (("dla0",) * 10, ("gpu",) * 8))
    )
    yield (
        f"  they are {1e3 * rows[constants][1]:.3f}, {1e3 * naive_s[0]:.3f} and "
        f"{1e3 * naive_s[1]:.3f} ms; the cause is unknown."
    )
    example_ms = 1e3 * solve(example()).makespan_s
    yield "- The example of [scheduling.md](../use/scheduling.md#the-problem) has other data; its"
    yield f"  best schedule takes {example_ms:.3f} ms."
    low, high = (solve(_with_balance(shipped, share)).makespan_s for share in (1.1, 0.9))
    yield "- The shipped files assume a CBP of 45.3 GB/s (GPU) and 71.6 GB/s (DLA); 10 % higher or"
    yield f"  lower gives {1e3 * low:.3f} or {1e3 * high:.3f} ms."
    yield "- The solver's own makespan is shorter than the last row because it does not slow down"
    yield "  the last group and uses one table of costs for both directions."
    yield ""


def _orders(problem: Problem) -> tuple[float, float, float, float]:
    """Seconds of the best schedule, and of the artifact's in three orders."""
    return (
        solve(problem, method="exact").makespan_s,
        evaluate(problem, ARTIFACT, "first come").makespan_s,
        evaluate(problem, ARTIFACT, "own order", ARTIFACT_STARTS).makespan_s,
        solve(only(problem, ARTIFACT), method="exact").makespan_s,
    )


def _with_balance(problem: Problem, share: float) -> Problem:
    """``problem`` with CBP ``share`` times as high, and CBP − TBWDC as it was."""
    fits = {
        name: replace(
            fit,
            contention_byte_per_s=fit.contention_byte_per_s * share,
            total_byte_per_s=fit.total_byte_per_s + fit.contention_byte_per_s * (share - 1),
        )
        for name, fit in problem.pccs.items()
    }
    return replace(problem, pccs=fits)


def _row(
    name: str,
    solve_ms: float | None,
    own_s: float | None,
    is_proved: bool | None,
    simulated: Schedule,
    best: Schedule,
) -> str:
    cells = (
        name,
        "–" if solve_ms is None else f"{solve_ms:.2f}",
        "–" if own_s is None else f"{1e3 * own_s:.3f}",
        "–" if is_proved is None else ("yes" if is_proved else "no"),
        f"{1e3 * simulated.makespan_s:.3f}",
        f"{100 * (simulated.makespan_s / best.makespan_s - 1):.1f} %",
    )
    return f"| {' | '.join(cells)} |"


def many_instances(count: int, seconds: float) -> Iterator[str]:
    """Drawn instances against solvers and baselines."""
    yield f"## {count} drawn instances"
    yield ""
    yield "Two networks of 6 to 12 groups on a GPU and a DLA, one change each. GPU times are"
    yield "log-uniform from 0.05 to 1 ms, DLA times 1.2 to 3 times as long, changes 0.01 to 0.15"
    yield "ms, GPU demands uniform from 9.3 to 93.1 GB/s; the DLA moves the same bytes. Measured"
    yield "with other load."
    yield ""
    yield "Without contention, compared with solvers of any order of groups:"
    yield ""
    yield "| solver | proved | equal to ours where proved | its solve, s: median | longest |"
    yield "|---|--:|--:|--:|--:|"
    plain = [drawn(_generator(i), None, _sizes(i)) for i in range(count)]
    exact = [solve(problem) for problem in plain]
    blind: dict[str, list[Answer | None]] = {}
    for name, solver in peers().items():
        if solver is solve_by_z3:
            continue
        answers = blind[name] = [solver(problem, time_limit_s=seconds) for problem in plain]
        proved = [(a, e) for a, e in zip(answers, exact, strict=True) if a and a.is_proved]
        equal = sum(abs(a.makespan_s / e.makespan_s - 1) < 1e-5 for a, e in proved)
        spent = [answer.solve_s for answer in answers if answer]
        yield (
            f"| {name} | {len(proved)} of {count} | {equal} | "
            f"{statistics.median(spent):.2f} | {max(spent):.2f} |"
        )
    times = [schedule.solve_s for schedule in exact]
    yield (
        f"| **ours** | {sum(s.is_optimal for s in exact)} of {count} | – | "
        f"{statistics.median(times):.4f} | {max(times):.4f} |"
    )
    yield ""
    yield "With contention, excess over ours in the simulator (HiGHS has CP-SAT's makespans):"
    yield ""
    blind.pop("HiGHS, without contention", None)
    wide = [drawn(_generator(i), XAVIER, _sizes(i)) for i in range(count)]
    yield from _longer(wide, blind, seconds)
    yield ""
    yield f"The same for {count} instances with demands from 25 to 71 GB/s, the range of the"
    yield "artifact's dummy data:"
    yield ""
    narrow = [drawn(_generator(i), XAVIER, _sizes(i), demands=(25.0, 71.0)) for i in range(count)]
    yield from _longer(narrow, blind, seconds)
    yield ""


def _generator(number: int) -> np.random.Generator:
    return np.random.default_rng([19, number])


def _sizes(number: int) -> list[int]:
    return [int(size) for size in np.random.default_rng([20, number]).integers(6, 13, 2)]


def _longer(
    problems: Sequence[Problem], blind: dict[str, list[Answer | None]], seconds: float
) -> Iterator[str]:
    """``blind``: answers of solvers for the same problems without contention."""
    ours = [solve(problem) for problem in problems]
    answers = dict(blind)
    if Z3 in peers():
        z3 = [solve_by_z3(problem, time_limit_s=seconds) for problem in problems]
        answers = {Z3: z3, **blind}
    found: dict[str, list[float]] = {}
    for i, (problem, best) in enumerate(zip(problems, ours, strict=True)):
        simulated = [
            score(problem, answer, name)
            for name, each in answers.items()
            if (answer := each[i]) is not None
        ]
        theirs = answers[Z3][i] if Z3 in answers else None
        if theirs is not None:  # as the artifact would run it
            name = f"{Z3}, in its own order"
            simulated.append(evaluate(problem, theirs.assignment, name, theirs.start_s))
        free = [
            msgspec.structs.replace(schedule, method=f"{schedule.method}, any number of changes")
            for schedule in baselines(msgspec.structs.replace(problem, max_transitions=99))
            if schedule.method in {"herald", "h2h"}
        ]
        for schedule in (*simulated, *baselines(problem), *free):
            found.setdefault(schedule.method, []).append(schedule.makespan_s / best.makespan_s - 1)
    yield "| schedule | instances | mean | median | 90th percentile | worst |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, shares in found.items():
        ranked = [
            statistics.mean(shares),
            statistics.median(shares),
            float(np.quantile(shares, 0.9)),
            max(shares),
        ]
        cells = " | ".join(f"{100 * share:.1f} %" for share in ranked)
        yield f"| {name} | {len(shares)} | {cells} |"
    yield ""
    times = sorted(1e3 * schedule.solve_s for schedule in ours)
    yield (
        f"Ours proved {sum(s.is_optimal for s in ours)} of {len(ours)}; solve "
        f"{statistics.median(times):.2f} ms in the median, {times[-1]:.1f} ms at most."
    )


def larger(seconds: float) -> Iterator[str]:
    """Times and proofs of larger problems."""
    yield "## Larger problems"
    yield ""
    yield f"With contention, five of each, at most {seconds:g} s. The gap is the largest of the"
    yield "five."
    yield ""
    yield (
        "| problem | assignments | each | simulated | solve, s: median | longest | proved | gap "
        "| shorter than first come, mean |"
    )
    yield "|---|--:|---|--:|--:|--:|--:|--:|--:|"
    ways: tuple[tuple[Method, str], ...] = (
        ("first_come", "first come first served"),
        ("exact", "in every order"),
    )
    for name, sizes, most, n_dlas in (
        ("three networks of ten groups, GPU and DLA, two changes", (10, 10, 10), 2, 1),
        ("four networks of ten groups, GPU and two DLAs, one change", (10, 10, 10, 10), 1, 2),
    ):
        problems = [drawn(_generator(i), XAVIER, sizes, most, n_dlas) for i in range(5)]
        first: list[float] = []
        for method, way in ways:
            found = [solve(each, method=method, time_limit_s=seconds) for each in problems]
            times = [schedule.solve_s for schedule in found]
            gap = max(1 - (s.bound or 0.0) / s.makespan_s for s in found)
            first = first or [s.makespan_s for s in found]
            shorter = [1 - s.makespan_s / f for s, f in zip(found, first, strict=True)]
            yield (
                f"| {name} | {found[0].n_assignments:,} | {way} | "
                f"{statistics.median(s.n_simulated for s in found):,.0f} | "
                f"{statistics.median(times):.2f} | {max(times):.2f} | "
                f"{sum(s.is_optimal for s in found)} of 5 | {100 * gap:.1f} % "
                f"| {100 * statistics.mean(shorter):.1f} % |"
            )
    yield ""


def contention() -> Iterator[str]:
    """Fits of the recorded matrix."""
    yield "## Contention: the recorded matrix of a Xavier AGX"
    yield ""
    surface = recorded_surface(DATA)
    if surface is None:
        yield "Left out: ../shared/data/scheduling is not there."
        yield ""
        return
    own, external, lost = losses(surface)
    fit, theirs = fit_pccs(surface), reference_fit(surface, XAVIER_PEAK_BYTE_PER_S)
    yield "Ten own and ten external demands in GB/s. Errors are mean absolute differences in"
    yield "points of the speed alone. Inner rows: predicted from the other nine."
    yield ""
    yield (
        "| model | normal | intensive | MRMC | TBWDC | CBP | rate | error | of left-out rows "
        "| of left-out inner rows |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    inner = range(1, len(own) - 1)
    of_rest = {row: _without(surface, row) for row in inner}
    by_fit = _left_out({row: fit_pccs(rest) for row, rest in of_rest.items()}, own, external, lost)
    by_surface = _left_out(of_rest, own, external, lost)
    yield _fit_row("PCCS, refitted", fit, f"{fit.left_out_points:.2f} | {by_fit:.2f}")
    yield _fit_row("PCCS by its implementation's rule", theirs, "– | –")
    yield f"| bilinear surface | – | – | – | – | – | – | 0 | – | {by_surface:.2f} |"
    yield ""


def _without(surface: ContentionSurface, row: int) -> ContentionSurface:
    rest = [place for place in range(len(surface.own_byte_per_s)) if place != row]
    return ContentionSurface(
        own_byte_per_s=tuple(surface.own_byte_per_s[place] for place in rest),
        external_byte_per_s=surface.external_byte_per_s,
        achieved_byte_per_s=tuple(surface.achieved_byte_per_s[place] for place in rest),
    )


def _left_out(
    models: dict[int, ContentionSurface] | dict[int, PccsFit],
    own: np.typing.NDArray[np.float64],
    external: np.typing.NDArray[np.float64],
    lost: np.typing.NDArray[np.float64],
) -> float:
    """The mean absolute error of each row by the model that did not see it."""
    return float(
        np.mean(
            [
                abs(100 - 100 * speed(model, own[row], y) - lost[row, column])
                for row, model in models.items()
                for column, y in enumerate(external)
            ]
        )
    )


def _fit_row(name: str, fit: PccsFit, left_out: str) -> str:
    numbers = (
        f"{fit.normal_byte_per_s / 1e9:.1f}",
        f"{fit.intensive_byte_per_s / 1e9:.1f}",
        f"{fit.minor_points:.2f}",
        f"{fit.total_byte_per_s / 1e9:.1f}",
        f"{fit.contention_byte_per_s / 1e9:.1f}",
        f"{fit.points_per_byte_per_s * 1e9:.3f}",
        f"{fit.error_points:.2f}",
    )
    return f"| {name} | {' | '.join(numbers)} | {left_out} |"


def recorded_surface(folder: Path) -> ContentionSurface | None:
    """The matrix of PCCS's repository: both axes after their lengths, then rows, in GB/s."""
    files = list(folder.glob("*PCCS*matrix.txt"))
    if not files:
        return None
    words = files[0].read_text().split()
    n_own = int(words[0])
    n_external = int(words[n_own + 1])
    numbers = [float(word) * 1e9 for word in words[1 : n_own + 1] + words[n_own + 2 :]]
    cells = numbers[n_own + n_external :]
    return ContentionSurface(
        own_byte_per_s=tuple(numbers[:n_own]),
        external_byte_per_s=tuple(numbers[n_own : n_own + n_external]),
        achieved_byte_per_s=tuple(
            tuple(cells[row * n_external : (row + 1) * n_external]) for row in range(n_own)
        ),
    )


def recorded_tables() -> Iterator[str]:
    """What the artifact recorded."""
    yield "## The artifact's tables, by one metric"
    yield ""
    yield "The artifact's scripts add the two times of some schedules and take the largest of"
    yield "others."
    yield ""
    yield "AGX Orin, from the log of its runs:"
    yield ""
    yield from orin_table()
    yield "Xavier AGX, from its expected output, in ms: a sum of two times (GPU; GPU and DLA) or"
    yield "the largest (the others). Of a sum S the larger is between S / 2 and S."
    yield ""
    if DATA.is_dir():
        yield from xavier_table(DATA)
    else:
        yield "Left out: ../shared/data/scheduling is not there."


if __name__ == "__main__":
    sys.exit(main())
