"""``mansard recommend``: which mode, batch and precision, what it costs, and how to set it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.analytics import pages
from mansard.analytics.data.quantities import MILLI, in_unit, relative
from mansard.api import results
from mansard.cli.console import (
    TerminalReporter,
    is_verbose,
    note,
    print_json,
    print_lines,
    print_whole,
)
from mansard.cli.deciding.batch import predicted_cells
from mansard.cli.deciding.mixes import mix_powers, mix_tables, read_battery
from mansard.cli.dry_runs import print_dry_runs
from mansard.cli.options import (
    AllOption,
    AllowMixedOption,
    BoardOption,
    CalibrateOption,
    ContextOption,
    DaskOption,
    DeviceOption,
    DimOption,
    JsonOption,
    ModelsArgument,
    PhaseOption,
    ProbabilityOption,
    PromptOption,
    RunsOption,
    parse_batches,
    parse_dimensions,
    parse_precisions,
    parse_tokens,
)
from mansard.cli.tables import print_tables, with_items, without_silent
from mansard.core.errors import UsageError
from mansard.core.table import Table
from mansard.core.units import ROOF_FACTORS, Interval, parse_optional, parse_share

_Texts = list[str] | None
_NOTHING = 1  # exit code where nothing is known to choose from
_NO_ANSWER = 3  # exit code of --check
_MOST_ROWS = 8  # modes in a table without -v
_TIE = "tie"
_MOST_DETAILED = 4  # recommendations in full; more are a table
_COLUMNS = ("mode", "batch", "precision", "time", "items/s", "energy per item", "power", "remark")
_UNITS = ("mode", "batch", "precision", "ms", "items/s", "mJ per item", "W", "note")


def recommend(
    models: ModelsArgument = None,
    runs: RunsOption = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Latency limit of a batch: 20ms.")
    ] = None,
    max_power: Annotated[str | None, typer.Option(help="Power limit: 30W.")] = None,
    max_energy: Annotated[
        str | None, typer.Option(help="Energy limit of an item: 0.5J, 500mJ.")
    ] = None,
    min_fps: Annotated[str | None, typer.Option(help="Minimum items per second: 30.")] = None,
    min_tokens_per_s: Annotated[
        str | None,
        typer.Option(help="Language models: minimum decode tokens per second of a batch: 10."),
    ] = None,
    max_first_token: Annotated[
        str | None, typer.Option(help="Language models: limit of the time to the first token: 1s.")
    ] = None,
    max_drop: Annotated[
        str | None,
        typer.Option(help="Limit of the accuracy drop from fp32: 1%."),
    ] = None,
    minimise: Annotated[
        Literal["energy", "latency", "edp", "power"] | None,
        typer.Option("--minimise", "--minimize",
            help="Quantity to minimise; edp is energy times latency. Energy by default, or "
                "latency if energy is unknown."
        ),
    ] = None,
    batch: Annotated[
        _Texts, typer.Option(
            help="Batch sizes to choose from: 1,8, or auto. By default the file's, else 1.")
    ] = None,
    precision: Annotated[
        _Texts, typer.Option(help="Precisions to choose from: fp16,int8. The file's by default.")
    ] = None,
    dim: DimOption = None,
    prompt: PromptOption = None,
    context: ContextOption = None,
    phase: PhaseOption = "inference",
    probability: ProbabilityOption = 0.9,
    mode: Annotated[
        str | None,
        typer.Option(help="Modes to choose from: as for bench, or a CSV table. Measured modes by "
            "default."),
    ] = None,
    device: DeviceOption = None,
    default: Annotated[
        str | None, typer.Option(help="The board's default mode, to compare with.")
    ] = None,
    workload: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of networks with rates; find one mode, or a sequence of modes, "
            "for all.", readable=False),
    ] = None,
    battery: Annotated[
        str | None,
        typer.Option(help="With --workload: capacity of a battery, 99Wh; print how long it lasts."),
    ] = None,
    rest_power: Annotated[
        str | None,
        typer.Option(
            help="With --battery: power of everything outside the board's meters: 4W. By default "
            "nothing."),
    ] = None,
    efficiency: Annotated[
        str | None,
        typer.Option(
            help="With --battery: share of its energy that reaches the board; 0.85 by default."),
    ] = None,
    calibrate: CalibrateOption = False,
    measure: Annotated[
        int | None,
        typer.Option(
            min=1, max=100,
            help="Measure up to N modes on this board to settle an uncertain answer.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="With --measure: print the writes of the first mode; change nothing."
        ),
    ] = False,
    local: Annotated[
        bool, typer.Option(
            "--local", help="With --measure: measure in this process, without a container.")
    ] = False,
    board: BoardOption = None,
    allow_mixed: AllowMixedOption = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit with 3 unless every network has a mode that meets the limits "
                "with --probability."),
    ] = False,
    dask: DaskOption = None,
    all_rows: AllOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Recommend a power mode for MODELS from what was measured.

    Sets nothing, and measures nothing without --measure. Prints the modes, the recommended one
    with what it saves, the probability of meeting the limits, and the commands that set and undo
    it; -v adds reasons, --all every candidate. If no mode meets the limits, the nearest are
    printed; the exit code is 0, with --check 3. It is 1 if nothing can be recommended.
    """
    batches, precisions = parse_batches(batch), parse_precisions(precision)
    if workload is not None:
        excluded = {"--default": default, "--dask": dask, "--measure": measure}
        _check_workload(models, excluded | {"--all": all_rows or None})
    if dask is not None and measure is not None:
        raise UsageError("--measure excludes --dask", fix="leave one of them out")
    if min_fps is not None and min_tokens_per_s is not None:
        raise UsageError("--min-fps and --min-tokens-per-s exclude each other", fix="give one")
    if max_drop is not None and not max_drop.strip().endswith("%"):
        raise UsageError(f"--max-drop {max_drop!r} is not a percentage", fix="write --max-drop 1%")
    wanted = api.Wanted(
        minimise=minimise or "energy",
        falls_back=minimise is None,
        max_latency_s=parse_optional("--max-latency", max_latency, "time"),
        max_power_w=parse_optional("--max-power", max_power, "power"),
        max_energy_j=parse_optional("--max-energy", max_energy, "energy"),
        min_fps=parse_optional("--min-fps", min_fps, "rate", bare="/s")
        or parse_optional("--min-tokens-per-s", min_tokens_per_s, "rate", bare="/s"),
        max_first_token_s=parse_optional("--max-first-token", max_first_token, "time"),
        max_drop=None if max_drop is None else parse_share("--max-drop", max_drop),
        probability=probability,
        lists_all=all_rows,
    )
    request = api.PredictionRequest(
        runs=tuple(runs or ("runs",)),
        networks=tuple(api.NetworkRequest(name=name) for name in models or ()),
        batches=batches,
        precisions=precisions,
        dims=parse_dimensions(dim or []),
        prompts=parse_tokens("--prompt", prompt),
        contexts=parse_tokens("--context", context),
        phase=phase,
        modes=mode,
        device=device,
        board=board,
        allow_mixed=allow_mixed,
        calibrate=calibrate,
    )
    reporter = TerminalReporter(most_notes=0 if measure is None else None)
    if workload is None:
        failure = None
        if measure is None:
            answers = api.recommend(request, wanted, default, reporter, dask=dask)
        else:
            settled = api.settle(
                request,
                wanted,
                default,
                reporter,
                n_most=measure,
                is_local=local,
                is_dry_run=dry_run,
            )
            answers, failure = settled.recommendations, settled.failure
            if dry_run:
                print_dry_runs(settled.planned, as_json=as_json)
                return
        _print(answers, all_rows=all_rows, as_json=as_json)
        if failure is not None:
            raise failure
        has_answer = all(answer.verdict == "feasible" for answer in answers)
        is_empty = all(answer.choice is None for answer in answers)
    else:
        mixes = api.recommend_workload(
            request,
            wanted,
            workload,
            reporter,
            battery=read_battery(battery, rest_power, efficiency),
        )
        _print_mixes(mixes, as_json=as_json)
        # By roofs alone it is unknown whether a plan keeps up.
        has_answer = all(mix.plan is not None and not mix.plan.roofed() for mix in mixes)
        is_empty = all(mix.plan is None and not mix.keeps_up for mix in mixes)
    failure_code = _NO_ANSWER if check and not has_answer else _NOTHING if is_empty else 0
    if failure_code:
        raise typer.Exit(failure_code)


def _check_workload(models: _Texts, excluded: Mapping[str, object]) -> None:
    """Raise UsageError for the options in ``excluded`` that have a value."""
    if models:
        raise UsageError("networks and --workload exclude each other", fix="name them in the file")
    for option, value in excluded.items():
        if value is not None:
            raise UsageError(f"--workload excludes {option}", fix="leave one of them out")


def _print(answers: Sequence[results.Recommendation], *, all_rows: bool, as_json: bool) -> None:
    if as_json:
        print_json("recommend", {"recommendations": answers, "mixes": ()})
        return
    if len(answers) > _MOST_DETAILED:
        print_tables([_overview_table(answers)])
        note("name at most 4 networks for reasons and commands")
        return
    for answer in answers:
        print_tables(_recommendation_tables(answer, all_rows=all_rows))
        print_lines([answer.sentence])
        print_lines(_reasons(answer) if is_verbose() else _caveats(answer))
        if not is_verbose() and answer.verdict != "feasible":
            print_lines(_next_line(answer))  # a mode that may break a limit is measured first
        elif answer.choice is not None:
            _print_commands(answer)
    if not is_verbose():
        note("-v shows reasons, intervals and notes")


def _print_commands(answer: results.Recommendation | results.MixAnswer) -> None:
    """The lines that set a mode and undo it, to be copied; or why there are none."""
    commands = answer.commands
    if commands is None:
        print_lines([f"  commands: unknown, {answer.unknown['commands']}"])
        return
    print_whole(*(f"  set:  {line}" for line in commands.set_lines))
    print_whole(*(f"  undo: {line}" for line in commands.undo_lines))
    if is_verbose():
        print_lines(f"  note: {line}" for line in commands.notes)


def _print_mixes(answers: Sequence[results.MixAnswer], *, as_json: bool) -> None:
    if as_json:
        print_json("recommend", {"recommendations": (), "mixes": answers})
        return
    for answer in answers:
        print_tables(mix_tables(answer))
        notes = answer.notes if is_verbose() else ()
        print_lines((answer.sentence, *mix_powers(answer), *(f"  note: {line}" for line in notes)))
        if answer.one_mode is not None:
            _print_commands(answer)


def _recommendation_tables(answer: results.Recommendation, *, all_rows: bool) -> list[Table]:
    """The choice with its neighbours and baselines, or the nearest ones; no table without."""
    if answer.choice is None:
        return []
    title = f"{answer.network} on {answer.device}"
    columns = _COLUMNS if is_verbose() else _UNITS
    if not answer.is_feasible:
        first = answer.claim.removeprefix("is ")
        rows = [_row(other, first if at == 0 else "") for at, other in enumerate(answer.nearest)]
        rows += _unknown_rows(answer, answer.choice)
        title += f": nearest to the limits{_share_shown(rows, answer)}"
        return [_titled(Table(title, columns, rows), answer)]
    is_kept = answer.verdict == "feasible"
    is_chosen = is_kept and not answer.lacks_rivals
    remark = "recommended" if is_chosen else answer.claim.removeprefix("is ")
    if remark.startswith("may "):
        remark += "; largest margin"
    if answer.equals:
        remark = f"{remark}; {_TIE}"
    rows = [_row(answer.choice, remark)]
    rows += [_row(other.candidate, _lost(other.why_lost)) for other in answer.neighbours]
    rows += [_row(other, _TIE) for other in answer.equals]
    rows += [
        _row(other.other, other.baseline.removeprefix("the board's ").removeprefix("the "))
        for other in answer.savings
        if other.other is not None and other.other != answer.choice
    ]
    rows = [*_once(rows), *_unknown_rows(answer, answer.choice)]
    rows = rows if is_verbose() or all_rows else rows[:_MOST_ROWS]
    return [_titled(Table(title + _share_shown(rows, answer), columns, rows), answer)]


def _share_shown(rows: Sequence[tuple[str, ...]], answer: results.Recommendation) -> str:
    """How many of the candidates have a row, where not all do."""
    if len(rows) >= answer.n_candidates:
        return ""
    return f"; {len(rows)} of {answer.n_candidates} candidates, --all has the rest"


def _lost(why: str) -> str:
    """Why a mode was not chosen: without -v only whether it breaks a limit."""
    if is_verbose():
        return why
    return "breaks a limit" if why.startswith("breaks") else ""


def _unknown_rows(
    answer: results.Recommendation, choice: results.Candidate
) -> list[tuple[str, ...]]:
    """The modes without predictions, each with the reason."""
    _, batch, precision, *_ = _row(choice, "")
    unknown = ("unknown",) * 4
    return [(mode, batch, precision, *unknown, why) for mode, why in answer.modes_unknown.items()]


def _titled(table: Table, answer: results.Recommendation) -> Table:
    """The table with the network's word for an item, without columns of unknowns."""
    table = without_silent(table, {*_COLUMNS[5:7], *_UNITS[5:7]})
    return with_items(table, pages.item_word(answer.network))


def _overview_table(answers: Sequence[results.Recommendation]) -> Table:
    """One row for each recommendation: the choice, and its savings over another mode."""
    heads = _COLUMNS if is_verbose() else _UNITS
    columns = ("device", "network", *heads[:-1], "compared with", "verdict")
    table = Table("Recommendations", columns, [_overview_row(answer) for answer in answers])
    return table.without({"power", "W"})


def _overview_row(answer: results.Recommendation) -> tuple[str, ...]:
    if answer.choice is None:
        why = answer.unknown["choice"]
        return (answer.device, answer.network, *("–",) * (len(_COLUMNS) - 1), "–", why)
    saving = answer.savings[0] if answer.savings else None
    words = ""
    if saving is not None and saving.mode != answer.choice.mode:
        changes = [(name, pages.change_of(saving, name)) for name in ("energy", "time")]
        differences = ", ".join(f"{name} {change}" for name, change in changes if change)
        words = f"{saving.mode}: {differences}" if differences else ""
    cells = _row(answer.choice, "")[:-1]
    by_roofs = ", by roofs" * (answer.choice.interval == "roof")
    verdict = f"{answer.verdict}{by_roofs}"
    return (answer.device, answer.network, *cells, words or "–", verdict)


def _once(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """One row for each candidate, with all of its remarks in one cell."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for *cells, remark in rows:
        merged.setdefault(tuple(cells), []).append(remark)
    return [
        (*cells, "; ".join(dict.fromkeys(filter(None, "; ".join(remarks).split("; ")))))
        for cells, remarks in merged.items()
    ]


def _row(candidate: results.Candidate, remark: str) -> tuple[str, ...]:
    cells = predicted_cells(partial(getattr, candidate), candidate.fps)
    full = (cells.time, cells.rate, cells.energy, cells.power)
    values = full if is_verbose() else _in_units(candidate)
    words = [remark] if remark else []
    words += ["outside measured clocks"] if candidate.is_extrapolated else []
    words += cells.remarks
    return (
        candidate.mode,
        str(candidate.batch),
        "–" if candidate.precision == pages.UNKNOWN_PRECISION else candidate.precision,
        *values,
        "; ".join(words),
    )


def _in_units(one: results.Candidate) -> tuple[str, str, str, str]:
    """Milliseconds of a batch, items in a second, millijoules of an item, watts."""
    kind = one.interval
    items = Interval(one.latency_s, one.latency_low_s, one.latency_high_s, kind).inverse(one.batch)
    return (
        in_unit(one.latency_s, one.latency_low_s, one.latency_high_s, kind, unit=MILLI),
        in_unit(one.fps, items.low, items.high, kind, roof="≤"),
        in_unit(one.energy_j, one.energy_low_j, one.energy_high_j, kind, unit=MILLI),
        in_unit(one.power_w, one.power_low_w, one.power_high_w, kind, roof="=", n_digits=3),
    )


def _caveats(answer: results.Recommendation) -> Iterator[str]:
    """How sure the answer is, in one line; and runs that do not count."""
    choice = answer.choice
    if choice is None:
        return
    words = list(filter(None, [pages.chances_words(answer.checks)]))
    words += ["energy unknown"] if choice.energy_j is None else []
    words += _bound_words(answer, choice)
    if choice.is_extrapolated:
        words.append("clocks outside the measured range: measure before use")
    if answer.is_feasible and answer.n_unknown:
        words.append(f"{answer.n_unknown} of {answer.n_candidates} uncertain")
    if words:
        yield f"  {'; '.join(words)}"
    yield from _set_aside(answer)


def _bound_words(answer: results.Recommendation, choice: results.Candidate) -> Iterator[str]:
    """What the bound of a choice by its roof is, and how far real times have been from such."""
    if choice.interval != "roof":
        return
    by = "the roofs"
    if answer.basis == "hardware":
        by = "the limits of the hardware"
    elif choice.device.endswith("(published)"):
        by = "published rates, which better kernels may exceed"
    yield f"≥: at best, by {by}; {ROOF_FACTORS}"


def _reasons(answer: results.Recommendation) -> Iterator[str]:
    """Everything else about a recommendation that is no table, line by line."""
    if answer.choice is not None:
        yield from (f"  {words}" for words in _bound_words(answer, answer.choice))
    yield from (f"  why: {line}" for line in answer.why)
    if answer.choice is not None:
        yield from (
            f"  limit: {pages.check_words(check, answer.choice)}" for check in answer.checks
        )
    yield from (
        f"  {pages.saving_words(saving)}" for saving in answer.savings if saving.other is None
    )
    # Nothing is said by "at most 0 %", which the limits leave, or by many times as much.
    if answer.most_excess is not None and 0 < answer.most_excess <= 1:
        yield (
            f"  at most {relative(answer.most_excess)} worse than the best, if every value lies "
            "in its interval"
        )
    if answer.measured is not None:
        yield f"  best measured: {answer.measured.why_lost}"
    yield from _next_line(answer)
    yield from _set_aside(answer)
    yield from (f"  note: {line}" for line in answer.notes)


def _set_aside(answer: results.Recommendation) -> Iterator[str]:
    if answer.set_aside:
        yield f"  {answer.set_aside}"


def _next_line(answer: results.Recommendation) -> Iterator[str]:
    if answer.measure_next is not None:
        yield f"  next: {answer.measure_next.what}: {answer.measure_next.how}"
