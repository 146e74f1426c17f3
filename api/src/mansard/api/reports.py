"""The report of folders of runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import device_labels, device_machines
from mansard.analytics.data.opening import open_runs
from mansard.analytics.data.scores import keep_scores
from mansard.analytics.data.store import is_url
from mansard.analytics.decisions.offload.files import answers_in
from mansard.analytics.pages.report import scripts
from mansard.analytics.pages.report.next_step import NextStep, next_step
from mansard.analytics.pages.report.summary import Summary, summary, warnings
from mansard.analytics.pages.report.write import write_report
from mansard.analytics.pages.results import compute
from mansard.analytics.pages.tables.headline import published_headlines
from mansard.api.counters import checks_in, group_bytes_in
from mansard.api.data import contention_of
from mansard.api.deciding.candidate_modes import find_modes, require_local
from mansard.api.inputs import Networks, Runs, as_list
from mansard.api.result import Result
from mansard.api.scores import score_networks
from mansard.core.errors import UsageError
from mansard.core.records import ModelScore
from mansard.core.table import Table
from mansard.sweeps.reporter import SILENT, Reporter


def score_for_runs(
    dataset: Dataset,
    networks: Sequence[Path | str],
    precisions: Sequence[str],
    batches: Sequence[int],
    reporter: Reporter,
) -> list[ModelScore]:
    """Scores of ``networks`` for the machines of ``dataset``; see ``score_networks``."""
    machines = dataset.all_manifests
    on_cpu = bool(machines) and all(one.gpu is None for one in machines)
    return [
        score
        for precision in precisions or (None,)
        for score in score_networks(
            networks, batches or (1,), {}, reporter, on_cpu=on_cpu, precision=precision
        )
    ]


class Report(Result, frozen=True):
    """A report that was written. ``run_ids``: the runs that it was made for; None: all of it.

    ``published``: its tables of networks that others ran.
    """

    path: Path
    summary: Summary
    published: tuple[Table, ...]
    run_ids: frozenset[str] | None
    next_step: NextStep


def report(  # noqa: PLR0913 - one keyword for each thing a user can state
    runs: Runs,
    output: Path | None = None,
    *,
    allow_mixed: bool = False,
    run_ids: Collection[str] | None = None,
    modes: str | None = None,
    board: Path | None = None,
    models: Networks = (),
    precisions: Sequence[str] = (),
    batches: Sequence[int] = (),
    reporter: Reporter = SILENT,
) -> Report:
    """Join what folders of runs hold, and write the report to ``output``; measures nothing.

    ``runs``: folders of runs, or merged datasets (folders or URLs). ``output``: report.html
    in the first of them by default, in the present folder for a URL; that may not be a link, as
    nothing in a folder of runs may. ``allow_mixed``: combine
    runs of one device by different versions, and identical boards. ``run_ids``: those of a
    bench; of its devices, runs that do not go with the newest are left out instead of refused.
    ``modes``: what to predict beside the modes that were measured, as ``find_modes`` takes it.
    ``models``: networks and language models, as of a bench; their scores are kept in the first
    folder. ``precisions`` and ``batches``: in which they are scored; by default the file's own
    precision, and batch 1. Raises InputError, ModelError, UsageError, StorageError.
    """
    locations = [str(folder) for folder in as_list(runs)]
    networks = as_list(models)
    if networks and is_url(locations[0]):
        raise UsageError(
            f"no scores are kept in {locations[0]}",
            fix="name a folder of runs first, with --runs",
        )
    for option, values in (("--precision", precisions), ("--batch", batches)):
        if values and not networks:
            raise UsageError(
                f"{option} has no effect without a network",
                fix=f"name one: mansard report MODEL {option} {values[0]}",
            )
    scripts.begin()  # in a process of their own, beside all that follows
    dataset = open_runs(locations, allow_mixed=allow_mixed, newest_only=run_ids is not None)
    if networks:
        scores = score_for_runs(dataset, networks, precisions, batches, reporter)
        keep_scores(Path(locations[0]), scores)
        dataset = open_runs(locations, allow_mixed=allow_mixed, newest_only=run_ids is not None)
    for line in dataset.notes:
        reporter.note(f"note: {line}")
    devices = dict.fromkeys(device_labels(dataset.all_manifests).values())
    wanted = []
    if modes is not None:
        local = require_local(tuple(devices), board, device_machines(dataset.all_manifests))
        wanted = [find_modes(modes, board, device).modes for device in local]
        if not wanted:
            reporter.note(
                "note: --mode has no effect: no board was measured to predict more modes of"
            )
    results = compute(dataset, wanted, group_bytes_in(locations, dataset.scores))
    first = Path() if "://" in locations[0] else Path(locations[0])
    path, within = (first / "report.html", first) if output is None else (output, None)
    answers = answers_in(locations)
    checked = checks_in(locations, reporter)
    beside = contention_of(dataset)
    write_report(
        dataset, path, results, within=within, answers=answers, checked=checked, contended=beside
    )
    contents = summary(dataset, results)
    for line in warnings(results):
        reporter.note(f"warning: {line}")
    for line in contents.notes[len(dataset.notes) :]:
        reporter.note(f"note: {line}")
    of_runs = None if run_ids is None else frozenset(run_ids)
    published = tuple(published_headlines(results))
    return Report(path, contents, published, of_runs, next_step(results))
