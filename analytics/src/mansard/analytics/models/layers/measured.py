"""The layers of networks that were measured here, under the roofs of their own mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import machine_id, processor_of
from mansard.analytics.data.names import device_labels, engine_name
from mansard.analytics.data.quantities import counted
from mansard.analytics.models.layers.engine import layers_of_times
from mansard.analytics.models.layers.network import NetworkGraph, graph_of_score
from mansard.analytics.models.layers.roofs import LayerRoofs, roofs_of_run
from mansard.analytics.models.layers.rows import LayersOrigin, RoofedLayers, roofed_layers
from mansard.analytics.models.predict.row_times import times_of
from mansard.analytics.models.roofs.roofline import Roofline, rooflines
from mansard.analytics.models.scaling.observations import shown_measurements
from mansard.analytics.models.scaling.repeats import labels_of, modes_of, of_newest_label
from mansard.analytics.models.scaling.use_of_rows import why_unused
from mansard.core.records import Measurement, ModelScore

AT_MOST = "times are at most those shown"  # of a disturbed row, with the reason
# The graph of the network that a row is of, and its score; None where it is another network.
GraphOf = Callable[[Measurement], tuple[NetworkGraph, ModelScore] | None]


def measured_layers(
    dataset: Dataset,
    graph_of: GraphOf,
    wanted: Callable[[Measurement, str, str, str], bool] | None = None,
    roofs: LayerRoofs | None = None,
    measured: Sequence[Roofline] | None = None,
) -> Iterator[RoofedLayers]:
    """The layers of the newest row of each network, engine and mode that has them.

    ``wanted``: whether to show a row, by its device, mode and label; None: all. Of several labels
    the newest counts. ``roofs``: used instead of those that were measured in the row's mode.
    ``measured``: the measured ones, where the caller has them already.
    """
    manifests = {run.run_id: run for run in dataset.workload_manifests}
    devices = device_labels(dataset.all_manifests)
    if measured is None:
        measured = () if roofs is not None else rooflines(dataset)
    rows = [row for row in shown_measurements(dataset) if row.layers and row.phase == "inference"]
    if wanted is not None:
        places = {
            run_id: (devices[run_id], run.mode_read_back.name, run.label)
            for run_id, run in manifests.items()
        }
        rows = [row for row in rows if wanted(row, *places[row.run_id])]
    for row in of_newest_label(rows, modes_of(dataset), labels_of(dataset)):
        manifest = manifests[row.run_id]
        device, mode = devices[row.run_id], manifest.mode_read_back.name
        known = graph_of(row)
        if known is None:
            continue
        place = (machine_id(manifest.machine), processor_of(manifest), mode)
        notes = (f"{AT_MOST}: {why}",) if (why := why_unused(row)) else ()
        origin = LayersOrigin(
            engine=f"{engine_name(row)}, {_profile_words(row)}",
            source=row.source,
            device=device,
            mode=mode,
            label=manifest.label,
            whole_s=times_of(row)["time_s"],
            notes=notes,
        )
        layers = layers_of_times(row.layers or ())
        in_place = [r for r in measured if (r.machine_id, r.processor, r.mode) == place]
        roofs_of_row = roofs or _newest(in_place, mode)
        yield roofed_layers(layers, *known, roofs_of_row, origin)


def _profile_words(row: Measurement) -> str:
    n_calls = len(row.profiled_s or ())
    return f"its profile of {counted(n_calls, 'call')}" if n_calls else "its own profile"


def _newest(in_mode: Sequence[Roofline], mode: str) -> LayerRoofs:
    with_peaks = [roofline for roofline in in_mode if roofline.peaks]
    if not with_peaks:
        return LayerRoofs(why=f"no roofs were measured in {mode}: 'mansard bench' measures them")
    return roofs_of_run(with_peaks[-1])


def layers_with_scores(
    dataset: Dataset, measured: Sequence[Roofline], most: int
) -> tuple[RoofedLayers, ...]:
    """The layers of the first ``most`` measured networks that ``dataset`` has scores of."""
    scores = {_key(score): score for score in dataset.scores if score.phase == "inference"}

    def graph_of(row: Measurement) -> tuple[NetworkGraph, ModelScore] | None:
        score = scores.get(_key(row))
        return None if score is None else (graph_of_score(score), score)

    return tuple(islice(measured_layers(dataset, graph_of, measured=measured), most))


def _key(row: Measurement | ModelScore) -> tuple[object, ...]:
    return row.model_hash, row.batch, row.precision, tuple(sorted(row.dimensions.items()))
