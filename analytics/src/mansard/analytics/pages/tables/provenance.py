"""Where the numbers of a page come from: kinds of numbers, runs, and tables of others."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import (
    device_labels,
    display_name,
    display_text,
    in_order,
    label_text,
)
from mansard.analytics.data.published.doubts import hardware_limit, module_called, unit_of
from mansard.analytics.data.published.store import Published, device_names
from mansard.analytics.data.quantities import UNKNOWN, counted, quantity, seconds
from mansard.analytics.models.roofs.published_rooflines import MOST_ROOFS
from mansard.analytics.models.scaling.coefficients import counted_runs
from mansard.analytics.models.scaling.observations import (
    PROGRAM,
    counted_generations,
    counted_measurements,
    counted_programs,
    network_measurements,
)
from mansard.analytics.pages.figures.parameters import mode_labels
from mansard.analytics.pages.figures.tables import shortened
from mansard.analytics.pages.results import Results
from mansard.core.records import Manifest, PublishedRate
from mansard.core.table import Table


def origin_table(results: Results) -> Table:
    """One row for each kind of number: its source, how many there are, and what they rest on."""
    rows = [
        *_roof_rows(results),
        _energy_row(results),
        *_mode_rows(results),
        _prediction_row(results),
        *_observation_rows(results),
        _clock_row(results),
        _boundary_row(results),
    ]
    return Table("Where the numbers come from", ("What", "Source", "How many", "Rests on"), rows)


def _roof_rows(results: Results) -> Iterator[list[str]]:
    for source in in_order([roof.source for roof in results.roofs]):
        run_ids = {roof.run_id for roof in results.roofs if roof.source == source}
        n_trials = sum(rate.run_id in run_ids for rate in results.rates)
        rests = "figures of others" if source == "published" else counted(n_trials, "trial")
        yield ["Roofs", source, counted(len(run_ids), "mode"), rests]


def _energy_row(results: Results) -> list[str]:
    n_points = sum(fit.n_points for fit in results.energies.values())
    if not n_points:
        return ["Energy of work, traffic and time", "unknown", "none", "no metered trial"]
    n_modes = len(results.energies)
    rests = f"{counted(n_points, 'metered point')}, by least squares"
    return ["Energy of work, traffic and time", "modelled", counted(n_modes, "mode"), rests]


def _mode_rows(results: Results) -> Iterator[list[str]]:
    modelled = results.coefficients.filter(pl.col("source") == "modelled")
    if modelled.is_empty():
        return
    n_modes = modelled.select("device", "mode").n_unique()
    n_fitted = max((n for n in modelled["n_fitted"].to_list() if n is not None), default=None)
    rests = f"scaled from {n_fitted or UNKNOWN} measured modes by their clocks"
    yield ["Roofs and costs of other modes", "modelled", counted(n_modes, "mode"), rests]


def _prediction_row(results: Results) -> list[str]:
    predictions = results.predictions
    if predictions.is_empty():
        return ["Networks", "unknown", "none", "no network was scored or timed"]
    is_scored = pl.col("score_id").is_in(results.dataset.layers["score_id"].unique().to_list())
    n_scored = predictions.filter(is_scored).height
    n_outside = predictions.filter(pl.col("is_extrapolated").fill_null(False)).height
    n_calibrated = predictions.filter(pl.col("is_calibrated").fill_null(False)).height
    n_unknown = predictions["latency_s"].null_count()
    parts = ["work and traffic counted from the graphs"] if n_scored else []
    parts += [f"{n_calibrated:,} fitted to measurements"] if n_calibrated else ["not calibrated"]
    parts += [f"{n_outside:,} outside the measured clocks"] if n_outside else []
    parts += [f"{n_unknown:,} unknown"] if n_unknown else []
    return ["Networks", "modelled", counted(len(predictions), "prediction"), "; ".join(parts)]


def _observation_rows(results: Results) -> Iterator[list[str]]:
    what = (
        pl.when(pl.col("engine") == PROGRAM).then(pl.lit("Programs")).otherwise(pl.lit("Networks"))
    )
    grouped = results.observations.group_by(what.alias("what"), "source").agg(
        pl.len(), pl.col("citation").drop_nulls().unique().sort()
    )
    for row in grouped.sort("what", "source").iter_rows(named=True):
        rests = "; ".join(display_text(line) for line in row["citation"]) or "runs beside this page"
        name = f"{row['what']} that were run"
        yield [name, row["source"], counted(row["len"], "time"), rests]


def _clock_row(results: Results) -> list[str]:
    known = [roof for roof in results.roofs if roof.clock_hz is not None]
    source = in_order([roof.source for roof in known])
    if not results.roofs:
        return ["GPU clocks", "unknown", "none", "no kernel was measured"]
    if not known:
        reasons = in_order([roof.unknown.get("clock_hz", "") for roof in results.roofs])
        return ["GPU clocks", "unknown", "none", display_text("; ".join(reasons))]
    rests = "counted by the kernels themselves, median over the trials"
    return ["GPU clocks", " and ".join(source), counted(len(known), "mode"), rests]


def _boundary_row(results: Results) -> list[str]:
    metered = [run for run in results.dataset.all_manifests if run.total_rails is not None]
    if not metered:
        return ["Power", "unknown", "none", "no meter gives a total"]
    meters = in_order([name for run in metered for name in run.meters])
    rules = in_order([run.total_rule or UNKNOWN for run in metered])
    boundaries = in_order([run.boundary or UNKNOWN for run in metered])
    rests = (
        f"{display_text(', '.join(meters))}; total: {display_text(' or '.join(rules))}; "
        f"boundary: {display_text(' or '.join(boundaries))}"
    )
    made_up = any(run.machine.is_simulated for run in metered)
    return ["Power", "simulated" if made_up else "measured", counted(len(metered), "run"), rests]


def _short_commit(manifest: Manifest) -> str:
    """The commit's first twelve digits, marked if the checkout had changes."""
    if manifest.commit is None:
        return f"unknown: {manifest.unknown['commit']}"
    number, mark, rest = manifest.commit.partition("-")
    return f"{number[:12]}{mark}{rest}"


def _image(manifest: Manifest) -> str:
    """The container's image with the start of its digest, or that there was none."""
    if manifest.image is None:
        return "none" if manifest.image_digest is None else display_name(manifest.image_digest)
    digest = (manifest.image_digest or "").partition(":")[2][:12]
    return display_name(f"{manifest.image}, {digest}" if digest else manifest.image)


def _minute(utc: str) -> str:
    """``2026-11-21T04:19:52+00:00`` as ``2026-11-21 04:19``."""
    return utc[:16].replace("T", " ")


def provenance_table(results: Results) -> Table:
    """Ids, versions and times of the runs, and why a run is in no model."""
    rows, remarks = [], _remarks(results.dataset)
    for label, manifest in _runs(results):
        # "mansard" has a column of its own; kernels are named by the hash of their source.
        versions = ", ".join(
            f"{name} {value}"
            for name, value in sorted(manifest.versions.items())
            if name != "mansard"
        )
        rows.append(
            [
                display_name(manifest.run_id),
                display_name(label),
                display_name(manifest.profile),
                label_text(manifest.label),
                display_name(manifest.tool_version),
                display_name(_short_commit(manifest)),
                display_name(_minute(manifest.started_utc)),
                display_name(
                    _minute(manifest.finished_utc) if manifest.finished_utc else "not finished"
                ),
                _image(manifest),
                display_text(versions),
                remarks.get(manifest.run_id, ""),
            ]
        )
    columns = (
        "Run",
        "Mode",
        "Profile",
        "Label",
        "Mansard",
        "Commit",
        "Started (UTC)",
        "Finished (UTC)",
        "Container",
        "Versions",
        "Remark",
    )
    return shortened(Table("Runs behind this page", columns, rows))


def _runs(results: Results) -> Iterator[tuple[str, Manifest]]:
    """All runs, each with its mode: those of kernels by their roofs, then all others."""
    for roof in results.roofs:
        if roof.source != "published":  # no run of ours; published_tables has its source
            yield roof.label, results.dataset.manifest(roof.run_id)
    labels, devices = mode_labels(results), device_labels(results.dataset.all_manifests)
    for manifest in results.dataset.workload_manifests:
        key = (devices[manifest.run_id], manifest.mode_read_back.name)
        yield f"{labels.get(key, key[1])} ({manifest.kind})", manifest
    for manifest in results.dataset.accuracy_manifests:
        yield f"any mode ({manifest.kind})", manifest


def _remarks(dataset: Dataset) -> dict[str, str]:
    """Why runs are in no model, by run id; runs that count have no remark."""
    of_kernels = {run.run_id for run in counted_runs(dataset)}
    remarks = {
        run.run_id: "another run of the mode counts"
        for run in dataset.manifests
        if run.run_id not in of_kernels
    }
    counted = {
        *(row.run_id for row in counted_measurements(dataset)),
        *(row.run_id for row in counted_programs(dataset)),
        *(row.run_id for row in counted_generations(dataset)),
    }
    recorded = {
        *(row.run_id for row in network_measurements(dataset)),
        *(row.run_id for row in dataset.programs),
        *(row.run_id for row in dataset.generations),
    }
    why = "no row counts: failed, disturbed, or measured again since"
    remarks |= dict.fromkeys(recorded - counted, why)
    for run in dataset.all_manifests:
        if run.finished_utc is None:
            rest = f"; {remarks[run.run_id]}" if run.run_id in remarks else ""
            remarks[run.run_id] = f"not finished{rest}"
    return remarks


def published_table(published: Published) -> Table:
    """One row for each published figure of a device and how it was obtained; not its source."""
    names = device_names(published)
    rows = [
        [
            display_name(names[rate.device, rate.table_id]),
            display_name(rate.mode.name),
            " ".join(filter(None, (rate.subject, rate.quantity))),
            _figure(rate),
            _limit(rate),
            "not stated" if rate.method is None else display_text(rate.method),
        ]
        for rate in published.rates
    ]
    columns = ("Device", "Mode", "Figure", "Value", "Hardware's limit", "How")
    return Table("Published figures", columns, rows, frozenset({3, 4}))


def source_table(published: Published) -> Table:
    """One row for each imported table: its authors, and how many of its figures are used."""
    names = device_names(published)
    tables: dict[tuple[str, str, str], list[str]] = {}
    for row in (*published.rows, *published.layers):
        # Layers alone are no device of any figure, and have no name to keep apart from others.
        device = names.get((row.device, row.table_id), f"{row.device} (published layers)")
        tables.setdefault((device, row.citation, row.table_id), []).append(row.mode.name)
    rows = [
        [display_name(device), display_text(citation), str(len(modes)), _modes(modes), table_id]
        for (device, citation, table_id), modes in tables.items()
    ]
    columns = ("Device", "Published in", "Figures", "Modes", "Table")
    return Table("Sources of what is published", columns, rows, frozenset({2, 3}))


def _modes(modes: list[str]) -> str:
    n_modes = len(set(modes))
    if n_modes <= MOST_ROOFS:
        return str(n_modes)
    return f"{n_modes:,}, {MOST_ROOFS} of them with a roof"


def _limit(rate: PublishedRate) -> str:
    """The hardware's limit at the mode's clocks; unknown for a module without data."""
    limit = hardware_limit(rate, module_called(rate.device))
    return UNKNOWN if limit is None else quantity(limit, unit_of(rate))


def _figure(rate: PublishedRate) -> str:
    if rate.quantity == "launch":
        return seconds(rate.value)
    return quantity(rate.value, unit_of(rate))
