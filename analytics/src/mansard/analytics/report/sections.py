"""How it was measured, in the report: protocol, what did not settle, provenance."""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.names import shown, shown_long
from mansard.analytics.data.quantities import relative
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results
from mansard.analytics.roofs.rates import TRIAL_ORDER, describe, unused_trials
from mansard.core.records import Manifest


def protocol_facts(results: Results) -> list[str]:
    """How it was measured, in sentences with figures from the rows themselves."""
    trials = results.dataset.trials
    n_accepted, n_rejected = int(trials["n_accepted"].sum()), int(trials["n_rejected"].sum())
    total = n_accepted + n_rejected
    share = f" ({100 * n_rejected / total:.1f} %)" if total else ""
    n_runs = len(results.dataset.manifests)
    if n_runs == 0:
        return ["Nothing was measured here: every roof of this page is published."]
    runs = "1 run" if n_runs == 1 else f"{n_runs} runs"
    return [
        f"{len(trials):,} trials in {runs}; {n_accepted:,} samples accepted, "
        f"{n_rejected:,} rejected{share}.",
        *_rejections(results),
    ]


def traffic_facts(results: Results) -> list[str]:
    """How each kernel's traffic is counted, as its trials say."""
    counting = results.dataset.trials.select("kernel", "traffic_counting").unique()
    return [
        f"{shown(row['kernel'])}: {shown_long(row['traffic_counting'])}."
        for row in counting.sort("kernel", "traffic_counting").iter_rows(named=True)
    ]


def _rejections(results: Results) -> list[str]:
    rejected = results.dataset.repetitions.filter(~pl.col("accepted"))
    # "1 involuntary context switch" and "5 involuntary context switches" are one reason here.
    reason = pl.col("rejected_reason").str.replace_all(r"\d+(\.\d+)?", "…")
    reason = reason.str.replace("switches", "switch", literal=True)
    counts = rejected.group_by(reason).len().collect()
    counts = counts.sort("len", "rejected_reason", descending=[True, False])
    return [
        f"Rejected {row['len']:,} times for: {shown_long(row['rejected_reason'])}."
        for row in counts.head(5).iter_rows(named=True)
    ]


def unstable_table(results: Results) -> Table:
    """The trials that stayed unstable; they are used, and their ceilings are marked."""
    labels = results.labels()
    rows = [
        [
            shown(labels[row["run_id"]]),
            describe(row),
            relative(row["stability_interval"]),
            f"{row['n_accepted']}",
            f"{row['n_rejected']}",
        ]
        for row in results.dataset.trials.sort(TRIAL_ORDER).iter_rows(named=True)
        if row["stability"] == "unstable"
    ]
    return Table(
        caption="Trials that did not settle",
        columns=("Mode", "Trial", "Interval of block medians", "Accepted", "Rejected"),
        rows=rows,
        numeric=frozenset({2, 3, 4}),
    )


def disturbed_table(results: Results) -> Table:
    """The trials that something disturbed; they are kept and drawn, and in no ceiling."""
    labels = results.labels()
    rows = [
        [shown(labels[row["run_id"]]), describe(row), shown_long("; ".join(row["disturbances"]))]
        for row in results.dataset.trials.sort(TRIAL_ORDER).iter_rows(named=True)
        if row["disturbances"]
    ]
    return Table("Trials that were disturbed", ("Mode", "Trial", "Disturbed by"), rows)


def unused(results: Results) -> list[str]:
    """Trials that give no rate, one line each."""
    return list(unused_trials(results.dataset))


def _short_commit(manifest: Manifest) -> str:
    """The commit's first twelve digits, with the mark of a changed checkout."""
    if manifest.commit is None:
        return f"unknown: {manifest.unknown['commit']}"
    number, mark, rest = manifest.commit.partition("-")
    return f"{number[:12]}{mark}{rest}"


def _image(manifest: Manifest) -> str:
    """The container's image with the start of its digest, or that there was none."""
    if manifest.image is None:
        return "none" if manifest.image_digest is None else shown(manifest.image_digest)
    digest = (manifest.image_digest or "").partition(":")[2][:12]
    return shown(f"{manifest.image}, {digest}" if digest else manifest.image)


def _minute(utc: str) -> str:
    """``2026-11-21T04:19:52+00:00`` as ``2026-11-21 04:19``."""
    return utc[:16].replace("T", " ")


def provenance_table(results: Results) -> Table:
    """Which run came from where: ids, versions, times."""
    rows = []
    for roof in results.roofs:
        if roof.source == "published":  # no run of ours; published_tables has its source
            continue
        manifest = results.dataset.manifest(roof.run_id)
        # "mansard" has a column of its own; kernels are named by the hash of their source.
        versions = ", ".join(
            f"{name} {value}"
            for name, value in sorted(manifest.versions.items())
            if name != "mansard"
        )
        rows.append(
            [
                shown(manifest.run_id),
                shown(roof.label),
                shown(manifest.profile),
                shown(manifest.tool_version),
                shown(_short_commit(manifest)),
                shown(_minute(manifest.started_utc)),
                shown(_minute(manifest.finished_utc) if manifest.finished_utc else "not finished"),
                _image(manifest),
                shown_long(versions),
            ]
        )
    return Table(
        caption="Runs behind this page",
        columns=(
            "Run",
            "Mode",
            "Profile",
            "Mansard",
            "Commit",
            "Started (UTC)",
            "Finished (UTC)",
            "Container",
            "Versions",
        ),
        rows=rows,
    )
