"""Notes on the runs of a sweep: measured again, already there; and on modes that are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.core.errors import DeniedError
from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document
from mansard.core.text import first_of, printable
from mansard.measuring.plan import RunPlan
from mansard.measuring.runner import RunOutcome
from mansard.sweeps.reporter import Reporter

if TYPE_CHECKING:
    from mansard.device.controller import Holding

_MOST_NAMED = 3  # trials that are measured again


def note_denied(denied: Mapping[str, DeniedError], *, n_plans: int, reporter: Reporter) -> None:
    """Note in one line the modes that this user may not set; raises if those are all modes."""
    if not denied:
        return
    name, error = next(iter(denied.items()))
    if len(denied) == n_plans:
        raise error
    more = f" and {len(denied) - 1} more" if len(denied) > 1 else ""
    reporter.note(f"{name}{more}: left out: {error}")


def modes_needing_reboot(
    plans: Sequence[RunPlan], holding: Holding, reporter: Reporter
) -> Mapping[str, str]:
    """Modes of ``plans`` that cannot be set and undone without a reboot, and why; notes each.

    A mode that switches SMs on or off can be set only before CUDA has run, and once CUDA has run
    in it only a reboot undoes it, so on a GPU such a mode is not tried. On a simulated board CUDA
    never runs.
    """
    left_out = dict(holding.needing_reboot([plan.mode for plan in plans]))
    for plan in plans:
        gpu, n_sms = plan.gpu, plan.mode.n_sms
        if gpu is None or n_sms is None or plan.machine.is_simulated or n_sms == gpu.n_sms:
            continue
        words = f"it has {n_sms} SMs on, now there are {gpu.n_sms}"
        left_out.setdefault(plan.mode.name, words)
    for name, words in left_out.items():
        reporter.note(f"{name}: left out, it needs a reboot: {words}")
    return left_out


def note_doubts(title: str, plan: RunPlan, doubts: Mapping[str, str], reporter: Reporter) -> None:
    """Note which trials of ``plan`` are measured again without ``--again``, and why.

    ``doubts``: why, by the ids of the trials.
    """
    lines = [
        f"{printable(trial.title)} ({printable(doubts[trial.trial_id])})"
        for trial in plan.trials
        if trial.trial_id in doubts
    ]
    many = "" if len(plan.trials) == 1 else f"{len(lines)} of {len(plan.trials)} trials are "
    named = first_of(lines, _MOST_NAMED)
    reporter.note(f"{title}: {many}measured again: {named}")


def note_outcome(
    words: tuple[str, str], n_doubtful: int, outcome: RunOutcome, runs: Path, reporter: Reporter
) -> None:
    """Note what a run did not measure, and whether rows that were measured again are better.

    ``words``: the title of the run, and how to measure it again; empty: move its folder away.
    ``n_doubtful``: trials that were measured again.
    """
    title, how_to_repeat = words
    if outcome.torn_path is not None:
        reporter.note(f"note: a half-written row of an earlier run is kept in {outcome.torn_path}")
    if outcome.n_measured == 0:
        manifest = read_document(outcome.folder / "manifest.json", Manifest, runs)
        at = printable(manifest.started_utc[:16].replace("T", " "))
        how_to_repeat = how_to_repeat or f"move {outcome.folder} away"
        line = f"already measured, nothing to do; to measure it again, {how_to_repeat}"
        reporter.note(f"{title}: {line} (it was measured {at} UTC)")
    elif n_doubtful:
        n_left = n_doubtful - outcome.n_improved
        kept = f", {n_left} kept: the earlier {'row is' if n_left == 1 else 'rows are'} better"
        rows = "1 row" if outcome.n_improved == 1 else f"{outcome.n_improved} rows"
        reporter.note(f"{title}: {rows} improved{kept if n_left else ''}")
    elif outcome.n_resumed:
        there = "1 trial was" if outcome.n_resumed == 1 else f"{outcome.n_resumed} trials were"
        reporter.note(f"{title}: resumed, {there} already there")
