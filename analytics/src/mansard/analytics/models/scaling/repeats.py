"""Rows that measure the same: which of them counts, and notes on the choice.

Of the rows of one label the best one counts: one that ran undisturbed, then a stable one, then the
newest. Of several labels that of the newest row counts, in all modes, so that no model mixes
builds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import device_id
from mansard.analytics.data.names import (
    display_name,
    engine_name,
    first_names,
    label_words,
    network_key,
    network_names,
)
from mansard.core.records import (
    GenerationRun,
    Measurement,
    ProgramRun,
    chain_length,
    quality,
)

AnyRow: TypeAlias = Measurement | ProgramRun | GenerationRun
_Any = TypeVar("_Any", Measurement, ProgramRun, GenerationRun)


def labels_of(dataset: Dataset) -> dict[str, str]:
    """The label of each run of networks, programs and servers, by run id."""
    return {run.run_id: run.label for run in dataset.workload_manifests}


def modes_of(dataset: Dataset) -> dict[str, tuple[str, str]]:
    """The device and the mode of each run of networks, programs and servers, by run id."""
    return {
        run.run_id: (device_id(run), run.mode_read_back.name) for run in dataset.workload_manifests
    }


def key_of(row: Measurement) -> str:
    """What tells networks of one name apart."""
    return network_key(row.model, row.model_hash)


def with_uncounted(
    counted: tuple[_Any, ...], rows: Iterable[_Any], dataset: Dataset
) -> tuple[_Any, ...]:
    """``counted``, and the best of ``rows`` that measure something else, or with another label."""
    modes, labels = modes_of(dataset), labels_of(dataset)

    def identity(row: _Any) -> object:
        return (identity_of(row, modes), labels[row.run_id])

    known = {identity(row) for row in counted}
    return counted + best((row for row in rows if identity(row) not in known), identity)


def identity_of(row: AnyRow, modes: Mapping[str, tuple[str, str]]) -> object:
    """A key that is equal for rows that measure the same; one of them is used."""
    place = modes[row.run_id]
    if isinstance(row, ProgramRun):
        return (place, row.workload)
    if isinstance(row, GenerationRun):
        lengths = (row.prompt_tokens, row.generate_tokens, row.concurrency)
        return (place, row.workload, row.server, lengths)
    what = (key_of(row), row.phase, row.precision, row.batch)
    return (place, what, engine_name(row))


def _build(row: AnyRow, modes: Mapping[str, tuple[str, str]]) -> object:
    """A key of what is built, equal in all modes, precisions and lengths."""
    device, _ = modes[row.run_id]
    if isinstance(row, Measurement):
        return (device, key_of(row), row.phase, engine_name(row))
    return (device, row.workload, "" if isinstance(row, ProgramRun) else row.server)


def of_newest_label(
    rows: Sequence[_Any], modes: Mapping[str, tuple[str, str]], labels: Mapping[str, str]
) -> list[_Any]:
    """``rows`` without those of another label than the newest row of their build."""
    last = newest(rows, lambda row: _build(row, modes))
    chosen = {_build(row, modes): labels[row.run_id] for row in last}
    return [row for row in rows if labels[row.run_id] == chosen[_build(row, modes)]]


def newest(rows: Iterable[_Any], identity: Callable[[_Any], object]) -> tuple[_Any, ...]:
    """The newest row of each ``identity``."""
    return _greatest(rows, identity, lambda row: (row.started_utc, row.run_id))


def best(rows: Iterable[_Any], identity: Callable[[_Any], object]) -> tuple[_Any, ...]:
    """The best row of each ``identity``: undisturbed, then stable, then the newest."""
    return _greatest(rows, identity, lambda row: (*quality(row)[:3], row.started_utc, row.run_id))


def _greatest(
    rows: Iterable[_Any], identity: Callable[[_Any], object], rank: Callable[[_Any], Any]
) -> tuple[_Any, ...]:
    chosen: dict[object, _Any] = {}
    for row in rows:
        other = chosen.get(identity(row))
        if other is None or rank(row) > rank(other):
            chosen[identity(row)] = row
    return tuple(chosen.values())


def repeat_notes(
    dataset: Dataset, counted: Sequence[AnyRow], asked: Collection[str | None] = (None,)
) -> tuple[str, ...]:
    """What was measured more than once, or with several labels, and which rows count.

    ``asked``: names of the networks, programs and servers to note; with None in it, all.
    """
    modes, labels = modes_of(dataset), labels_of(dataset)
    networks = [
        row for row in dataset.measurements if chain_length(row.model) is None and not row.is_part
    ]
    rows: list[AnyRow] = [*networks, *dataset.programs, *dataset.generations]
    names = network_names(dataset)

    def name(row: AnyRow) -> str:
        if isinstance(row, Measurement):
            return names[key_of(row)]
        return display_name(row.workload)

    if None not in asked:
        counted = [row for row in counted if name(row) in asked]
    n_alike = Counter((identity_of(row, modes), labels[row.run_id]) for row in rows)
    repeated = [
        f"{name(row)} in {display_name(modes[row.run_id][1])} ({n} times, that of "
        f"{display_name(row.started_utc[:16].replace('T', ' '))})"
        for row in counted
        if (n := n_alike[identity_of(row, modes), labels[row.run_id]]) > 1
    ]
    return (*_label_notes(rows, counted, modes, labels, name), *_repeated(repeated))


def _repeated(rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield (
            f"measured more than once: {first_names(rows)}; of each the newest of the good rows "
            "counts, a stable one before an unstable one"
        )


def _label_notes(
    rows: Sequence[AnyRow],
    counted: Sequence[AnyRow],
    modes: Mapping[str, tuple[str, str]],
    labels: Mapping[str, str],
    name: Callable[[AnyRow], str],
) -> Iterator[str]:
    of_build: dict[object, set[str]] = {}
    for row in rows:
        of_build.setdefault(_build(row, modes), set()).add(labels[row.run_id])
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in counted:
        label = labels[row.run_id]
        others = tuple(sorted(of_build[_build(row, modes)] - {label}))
        if others:
            groups.setdefault((label, others), []).append(name(row))
    for (label, others), names in groups.items():
        rest = first_names([label_words(other) for other in others])
        yield (
            f"{first_names(list(dict.fromkeys(names)))}: what is modelled and recommended rests on "
            f"{label_words(label)}, the newest; {rest}: in the tables alone"
        )
