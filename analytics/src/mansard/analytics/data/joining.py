"""Several places as one: every run once, every score once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.layout import RUN_TABLES
from mansard.analytics.data.read import Part, dataset_of, run_files
from mansard.core.errors import InputError

Entry = Mapping[str, object]  # a row of RUN_ENTRY_SCHEMA


def join(parts: Sequence[Part]) -> Dataset:
    """One dataset of several places, at least one; raises InputError as ``without_repeats``."""
    places = tuple(part.place for part in parts)
    found = [dataset_of(part) for part in without_repeats(parts)]
    if len(found) == 1:
        return replace(found[0], places=places)
    scores = tuple(score for each in found for score in each.scores)
    manifests = [manifest for each in found for manifest in each.manifests]
    trials = pl.concat([each.trials for each in found])
    energy = pl.concat([each.energy for each in found])
    return Dataset(
        places=places,
        runs=pl.concat([each.runs for each in found]).sort("run_id"),
        trials=trials.sort("run_id", "trial_id"),
        repetitions=pl.concat([each.repetitions for each in found]),
        energy=energy.sort("run_id", "trial_id", "window", maintain_order=True),
        samples=pl.concat([each.samples for each in found]),
        layers=layer_frame(scores),
        manifests=tuple(sorted(manifests, key=lambda manifest: manifest.run_id)),
        scores=scores,
        measurements=tuple(row for each in found for row in each.measurements),
        notes=tuple(dict.fromkeys(note for each in found for note in each.notes)),
    )


def without_repeats(parts: Sequence[Part]) -> list[Part]:
    """The same places, each without what another one has as well.

    Of a run that is in several the fullest copy counts, of a score the last place's, of equal
    measurements the first. Raises InputError where two copies of a run hold different trials.
    """
    runs = _chosen_runs(parts)
    scores = {score_id: at for at, part in enumerate(parts) for score_id in part.scores["score_id"]}
    seen: set[str] = set()
    found = []
    for at, part in enumerate(parts):
        text = part.measurements["measurement_json"]
        new = [row not in seen for row in text]
        seen.update(text)
        found.append(
            replace(
                part,
                runs=_filter(part.runs, [runs[key] == at for key in part.runs["run_id"]]),
                scores=_filter(part.scores, [scores[key] == at for key in part.scores["score_id"]]),
                measurements=_filter(part.measurements, new),
            )
        )
    return found


def _filter(frame: pl.DataFrame, mask: Sequence[bool]) -> pl.DataFrame:
    return frame.filter(pl.Series(mask, dtype=pl.Boolean))


def _chosen_runs(parts: Sequence[Part]) -> dict[str, int]:
    """Which of ``parts`` each run is taken from."""
    chosen: dict[str, tuple[int, Entry]] = {}
    for at, part in enumerate(parts):
        for entry in part.runs.iter_rows(named=True):
            run_id = entry["run_id"]
            other = chosen.get(run_id)
            if other is None or is_fuller(part, entry, parts[other[0]], other[1]):
                chosen[run_id] = (at, entry)
    return {run_id: at for run_id, (at, _) in chosen.items()}


def is_fuller(part: Part, entry: Entry, other_part: Part, other: Entry) -> bool:
    """Whether ``entry`` holds more of a run than ``other``, another copy of the same.

    Raises InputError where neither holds all trials of the other: one id stands for one
    measurement, and two of them are not to be told apart by it.
    """
    if entry["content"] == other["content"]:
        return False
    own, there = _trials(part, entry), _trials(other_part, other)
    if own != there and not own < there and not there < own:
        raise InputError(
            f"run {entry['run_id']} is also in {other_part.place}, with other trials",
            where=part.place,
            fix="it was measured twice under one id; leave one of the two out",
        )
    return _fullness(entry, len(own)) > _fullness(other, len(there))


def _fullness(entry: Entry, n_trials: int) -> tuple[int, bool, int]:
    n_samples = entry["n_power_samples"]
    assert isinstance(n_samples, int)  # noqa: S101 - by its schema
    return n_trials, entry["finished_utc"] is not None, n_samples


def _trials(part: Part, entry: Entry) -> set[tuple[object, ...]]:
    """What tells trials apart: one that was measured again began at another time."""
    files = run_files(str(entry["files_json"]), part.place)
    rows = part.store.read(files.of("trials"), RUN_TABLES["trials"])
    return set(rows.select("trial_id", "started_utc", "duration_s").iter_rows())
