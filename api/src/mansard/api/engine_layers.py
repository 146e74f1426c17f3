"""Layers of an engine, from a profile of any tool or from measurements, under roofs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.opening import open_runs
from mansard.analytics.data.published.cells import LayerRow
from mansard.analytics.data.published.readers.reader import MOST_TOOL_BYTES, ToolFile
from mansard.analytics.data.published.readers.registry import NCU, recognise
from mansard.analytics.data.published.store import published_in, read_counters
from mansard.analytics.data.store import is_url
from mansard.analytics.models.counters.by_network import by_setting, measured_counters
from mansard.analytics.models.counters.importing import (
    ExportOrigin,
    counters_in,
    notes_on_unknown,
)
from mansard.analytics.models.counters.reading import is_export
from mansard.analytics.models.layers.engine import (
    EngineLayer,
    batch_of,
    layers_of_rows,
    n_described,
)
from mansard.analytics.models.layers.launches import (
    join_launches,
    last_call,
    layers_of_launches,
)
from mansard.analytics.models.layers.measured import measured_layers
from mansard.analytics.models.layers.network import NetworkGraph, network_graph
from mansard.analytics.models.layers.roofs import (
    LayerRoofs,
    PeakKey,
    roofs_given,
    roofs_of_hardware,
    roofs_of_run,
)
from mansard.analytics.models.layers.rows import LayersOrigin, RoofedLayers, roofed_layers
from mansard.analytics.models.roofs.published_rooflines import published_rooflines
from mansard.analytics.models.roofs.roofline import rooflines
from mansard.api.inputs import Runs, as_list
from mansard.core.errors import InputError, MansardError, UsageError
from mansard.core.formats.onnx import named
from mansard.core.hardware import devices_called
from mansard.core.precision import PRECISIONS, parse_precision
from mansard.core.records import KernelCounters, Measurement, ModelScore
from mansard.core.storage.files import read_whole
from mansard.core.text import first_of, printable
from mansard.estimator.model import Given
from mansard.estimator.score_context import Settings
from mansard.estimator.scoring import (
    Loaded,
    load_network,
    score_loaded,
    shaped_nodes,
    with_defaults,
)

_MOST_CHOICES = 8  # named in an error


def layers(  # noqa: PLR0913 - one keyword for each thing a user can state
    model: Path | str,
    *,
    profile: Path | None = None,
    description: Path | None = None,
    runs: Runs = (),
    mode: str | None = None,
    device: str | None = None,
    label: str | None = None,
    batch: int | None = None,
    precision: str | None = None,
    dims: Mapping[str, int] | None = None,
    peaks: Mapping[PeakKey, float] | None = None,
    bandwidth: float | None = None,
    launch_s: float | None = None,
) -> tuple[RoofedLayers, ...]:
    """The layers of an engine joined to the nodes of ``model``, each under its roof.

    ``profile``: times of layers, as trtexec, TensorRT's IProfiler, cuDLA or ONNX Runtime write
    them, or an export of Nsight Compute, whose launches are the layers. ``description``: the layers
    of the same engine by TensorRT's inspector. Without a profile the layers of ``model`` that
    ``runs`` hold are shown, one result for each measurement and for each table of counters; of
    several labels those of ``label``, by default the newest.

    ``batch``, ``precision`` and ``dims``: of the network; by default those of the description.
    Roofs are ``peaks`` (FLOP/s by precision and "fma" or "tensor") with ``bandwidth`` (bytes/s);
    else the ceilings in ``runs``, of ``device`` and ``mode`` where there are several; without runs
    the limits of a Jetson called ``device``.

    Raises UsageError, InputError, ModelError, StorageError.
    """
    loaded = load_network(named(model))
    folders = as_list(runs)
    if profile is not None and mode is not None and device is None and not folders:
        raise UsageError("--mode needs a device", fix="add --device, or --runs with its roofs")
    given = roofs_given(peaks or {}, bandwidth, launch_s) if peaks or bandwidth else None
    if profile is None:
        if description is not None:
            raise UsageError("--graph needs a profile", fix="add --profile")
        wanted = _Wanted(mode, device, label, batch, precision)
        return _measured(loaded, open_runs(folders or ["runs"]), wanted, given, str(model))
    roofs = _roofs(given, folders, device, mode)
    source = ToolFile(str(profile), read_whole(profile, most_bytes=MOST_TOOL_BYTES))
    reader = recognise(source)
    if reader is NCU or (reader is None and is_export(source)):
        if description is not None:
            raise UsageError(
                "an export of Nsight Compute has no description", fix="leave --graph out"
            )
        return (_counted(loaded, source, roofs, (batch, precision, dims or {}), device or ""),)
    timed, method, notes = _read(source)
    described: tuple[LayerRow, ...] = ()
    if description is not None:
        data = read_whole(description, most_bytes=MOST_TOOL_BYTES)
        described, _, _ = _read(ToolFile(str(description), data))
    if described and not n_described(timed, described):
        raise InputError(
            "describes none of the layers of the profile",
            where=str(description),
            fix="give the description of the same engine",
        )
    engine = layers_of_rows(timed, described)
    settings, more = _settings(loaded, engine, batch, precision, dims or {})
    origin = LayersOrigin(method, "published", notes=(*notes, *more))
    return (roofed_layers(engine, *_scored(loaded, settings), roofs, origin),)


def _roofs(
    given: LayerRoofs | None, runs: Sequence[str | Path], device: str | None, mode: str | None
) -> LayerRoofs:
    """The roofs of a profile: those given, else those of runs or a device; raises UsageError."""
    if given is None:
        if runs:
            return _roofs_in(open_runs(runs), device, mode)
        if device is not None:
            return roofs_of_hardware(device, mode)
        return LayerRoofs(why="no roofs are given: name runs, a device, or peaks and a bandwidth")
    if bool(given.peaks) is not bool(given.levels) and not runs and device is None:
        raise UsageError("roofs need peaks and a bandwidth", fix="give both")
    return given


def _counted(
    loaded: Loaded,
    source: ToolFile,
    roofs: LayerRoofs,
    given: tuple[int | None, str | None, Mapping[str, int]],
    device: str,
) -> RoofedLayers:
    """Launches as layers; ``given``: the batch, the precision and dimensions of the network."""
    origin = ExportOrigin(device=device, precision=given[1])
    counters = counters_in(source, origin)
    settings, more = _settings(loaded, layers_of_launches(counters.rows), *given)
    if settings.precision is not None and given[1] is None:
        # Which half instructions are work depends on the network's precision.
        counters = counters_in(source, replace(origin, precision=settings.precision.name))
    words = f"Nsight Compute, {counters.form}; kernels run one by one"
    times = LayersOrigin(words, "published", notes=(*counters.notes, *more))
    return _launches(loaded, settings, counters.rows, roofs, times)


def _launches(
    loaded: Loaded,
    settings: Settings,
    rows: Sequence[KernelCounters],
    roofs: LayerRoofs,
    origin: LayersOrigin,
) -> RoofedLayers:
    """The launches of one call under ``roofs``; ``rows``: of all calls."""
    of_call, call_notes = last_call(rows)
    graph, score = _scored(loaded, settings)
    engine, joins, join_notes = join_launches(of_call, graph, score)
    notes = (*origin.notes, *notes_on_unknown(of_call), *call_notes, *join_notes)
    noted = replace(origin, notes=tuple(map(printable, notes)))
    return roofed_layers(engine, graph, score, roofs, noted, joins)


def _counted_in(
    loaded: Loaded, dataset: Dataset, wanted: _Wanted, roofs: LayerRoofs | None
) -> Iterator[RoofedLayers]:
    """The launches of ``loaded`` that 'ncu run' counted in ``dataset``, or that were imported."""
    folders = [Path(location) for location in dataset.locations if not is_url(location)]
    measured = [counted for folder in folders for counted in measured_counters(folder)]
    for counted in (*by_setting(read_counters(*folders)), *measured):
        if not counted.rows or counted.rows[0].phase != "inference":
            continue
        first, run = counted.rows[0], counted.run
        is_same = (
            first.model_hash == loaded.model_hash
            if first.model_hash
            else first.network == loaded.name
        )
        if not is_same or not wanted.keeps(first, first.device, first.mode):
            continue
        dims = {} if run is None else run.dimensions
        settings = _settings_of_run(loaded, first.batch, first.precision, dims)
        origin = LayersOrigin(
            f"Nsight Compute, {run.tool if run else first.citation}; kernels run one by one",
            first.source,
            first.device,
            first.mode,
            notes=counted.notes,
        )
        place = roofs or _roofs_of_place(dataset, first.device, first.mode)
        yield _launches(loaded, settings, counted.rows, place, origin)


def _roofs_of_place(dataset: Dataset, device: str, mode: str) -> LayerRoofs:
    try:
        return _roofs_in(dataset, device, mode)
    except UsageError as error:
        return LayerRoofs(why=error.what)


def _read(source: ToolFile) -> tuple[tuple[LayerRow, ...], str, tuple[str, ...]]:
    """The layers in a file of a tool, how they were timed, and notes; raises InputError."""
    reader = recognise(source)
    reading = reader.read_source(source) if reader is not None else None
    row = next((row for row in reading.rows if row.layers), None) if reading else None
    if reading is None or row is None:
        what = f"is a file of {reader.name}, without layers" if reader else "is of no tool's layers"
        raise InputError(
            what,
            where=source.where,
            fix="give a file of trtexec --exportProfile or --exportLayerInfo, of TensorRT's "
            "IProfiler, of cuDLA's layer statistics, ONNX Runtime's profile, or an export of "
            "Nsight Compute",
        )
    for layer in row.layers:
        time_s = layer.time_s
        if time_s is not None and not 0 <= time_s < float("inf"):
            raise InputError(
                f"layer {printable(layer.name)} has a time of {time_s:.4g} s",
                where=source.where,
                fix="export it again",
            )
    notes = tuple(map(printable, reading.notes))
    return tuple(row.layers), row.cells.get("method", reader.name if reader else ""), notes


def _settings(
    loaded: Loaded,
    engine: Sequence[EngineLayer],
    batch: int | None,
    precision: str | None,
    dims: Mapping[str, int],
) -> tuple[Settings, tuple[str, ...]]:
    """How to score the network: as the caller says, else as the engine's description does."""
    name = precision or _main_precision(engine)
    known = parse_precision(name) if name else None
    of_engine = batch_of(engine)
    if batch is None and of_engine is not None and "batch" not in dims:
        try:
            settings = Settings(with_defaults(loaded, Given(of_engine, dims)), known)
            score_loaded(loaded, settings)
        except MansardError as error:
            note = f"the engine is for batch {of_engine}, the network is not: {error.what}"
            return Settings(with_defaults(loaded, Given(None, dims)), known), (note,)
        return settings, ()
    return Settings(with_defaults(loaded, Given(batch, dims)), known), ()


def _settings_of_run(
    loaded: Loaded, batch: int | None, precision: str | None, dimensions: Mapping[str, int]
) -> Settings:
    """How to score the network as a run measured or counted it."""
    dims = {name: size for name, size in dimensions.items() if name != "batch"}
    known = parse_precision(precision) if precision and precision in PRECISIONS else None
    return Settings(with_defaults(loaded, Given(batch, dims)), known)


def _main_precision(engine: Sequence[EngineLayer]) -> str | None:
    """The precision that most products run in; None where nothing is described."""
    names = Counter(
        layer.precision
        for layer in engine
        if layer.op_class == "product" and layer.kind == "layer" and layer.precision in PRECISIONS
    )
    floats = [name for name, _ in names.most_common() if not name.startswith("int")]
    # The file has quantisers for integers; all other layers run in half precision.
    return floats[0] if floats else "fp16" if names else None


def _scored(loaded: Loaded, settings: Settings) -> tuple[NetworkGraph, ModelScore]:
    score = score_loaded(loaded, settings)
    outputs = [output.name for output in loaded.model.outputs]
    nodes = shaped_nodes(loaded, settings)
    return network_graph(nodes, score, outputs, settings.precision), score


def _roofs_in(dataset: Dataset, device: str | None, mode: str | None) -> LayerRoofs:
    """The roofs of the one device and mode that match; raises UsageError where not one does."""
    roofs = [*rooflines(dataset), *published_rooflines(published_in(dataset.locations))]
    roofs = [roof for roof in roofs if roof.peaks]
    names = [roof.full_name for roof in roofs]
    called = names if device is None else devices_called(device, names)
    matching = [
        roof for roof in roofs if roof.full_name in called and (mode is None or roof.mode == mode)
    ]
    if len(matching) == 1:
        return roofs_of_run(matching[0])
    labels = [printable(f"{roof.full_name} in {roof.mode}") for roof in matching or roofs]
    what = "roofs of several devices or modes" if matching else "no roofs of this device and mode"
    choices = f"say --device and --mode: {first_of(labels, _MOST_CHOICES)}"
    fix = choices if labels else "measure them with 'mansard bench'"
    raise UsageError(f"{', '.join(dataset.locations)} has {what}", fix=fix)


@dataclass(frozen=True)
class _Wanted:
    """Which measurements to show; None: any."""

    mode: str | None
    device: str | None
    label: str | None
    batch: int | None
    precision: str | None

    def keeps(
        self, row: Measurement | KernelCounters, device: str, mode: str, label: str = ""
    ) -> bool:
        """Whether to show a row."""
        return (
            self.mode in {None, mode}
            and self.label in {None, label}
            and (self.device is None or bool(devices_called(self.device, [device])))
            and self.batch in {None, row.batch}
            and self.precision in {None, row.precision}
        )


def _measured(
    loaded: Loaded, dataset: Dataset, wanted: _Wanted, roofs: LayerRoofs | None, model: str
) -> tuple[RoofedLayers, ...]:
    """The layers of each measurement of a network; raises InputError where there is none."""

    def graph_of(row: Measurement) -> tuple[NetworkGraph, ModelScore] | None:
        if row.model_hash != loaded.model_hash:
            return None
        return _scored(loaded, _settings_of_run(loaded, row.batch, row.precision, row.dimensions))

    results = (
        *measured_layers(dataset, graph_of, wanted.keeps, roofs),
        *_counted_in(loaded, dataset, wanted, roofs),
    )
    if not results:
        is_there = any(row.model_hash == loaded.model_hash for row in dataset.measurements)
        which = "in this mode and setting that have layers" if is_there else "there"
        raise InputError(
            f"no measurements of {printable(model)} are {which}",
            where=", ".join(dataset.locations),
            fix=f"measure it: mansard measure {printable(model)}; or give a --profile",
        )
    return results
