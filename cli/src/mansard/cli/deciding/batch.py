"""``mansard models batch``: what batch sizes cost, swept as Pagoda's experiment does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mansard import api
from mansard.analytics import pages
from mansard.analytics.data import quantities
from mansard.analytics.data.quantities import digits, joules, rate, seconds
from mansard.cli.console import TerminalReporter, note, print_json
from mansard.cli.options import (
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
    PromptOption,
    RunsOption,
    parse_batches,
    parse_dimensions,
    parse_precisions,
    parse_tokens,
)
from mansard.cli.tables import print_tables, with_items, without_silent
from mansard.core.precision import work_unit
from mansard.core.table import Table
from mansard.core.units import Interval


@dataclass(frozen=True, kw_only=True)
class PredictedCells:
    """Time of a batch, power, energy of an item, items in a second, and what is to be remarked."""

    time: str
    power: str
    energy: str
    rate: str
    remarks: tuple[str, ...]


def predicted_cells(field: Callable[[str], Any], rate: float | None) -> PredictedCells:
    """The cells of a prediction, ``field`` being its fields by the names of ``Candidate``."""
    kind, n_items = field("interval"), field("batch")
    time, power, energy = (
        (field(f"{name}_{unit}"), field(f"{name}_low_{unit}"), field(f"{name}_high_{unit}"))
        for name, unit in (("latency", "s"), ("power", "w"), ("energy", "j"))
    )
    items = Interval(*time, kind).inverse(n_items)
    is_wide = any(quantities.is_wide(low, high, kind) for _, low, high in (time, power, energy))
    return PredictedCells(
        time=quantities.seconds(*time, kind, advise=False),
        power=quantities.watts(*power, kind, advise=False),
        energy=quantities.joules(*energy, kind, advise=False),
        rate=quantities.rate(rate, items.low, items.high, kind, advise=False),
        remarks=(quantities.MEASURE_MORE,) if is_wide else (),
    )


_BEFORE = ("batch", "time", "items/s", "power", "energy per item")
_MEASURED = ("measured time", "measured items/s", "measured energy per item")
_DROPPABLE = ("power", "energy per item", "FLOP/byte", "OP/byte", *_MEASURED, "remark")
_Texts = list[str] | None


def batch(
    models: ModelsArgument = None,
    runs: RunsOption = None,
    batch_sizes: Annotated[
        _Texts, typer.Option("--batch", help="Batch sizes: 1,8,32. 1 to 64 by default.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="Modes: as for bench, a CSV table, or 'measured'. The highest mode by "
            "default."),
    ] = None,
    precision: Annotated[
        _Texts, typer.Option(help="Precisions: fp16,int8. The file's by default.")
    ] = None,
    dim: DimOption = None,
    prompt: PromptOption = None,
    context: ContextOption = None,
    phase: PhaseOption = "inference",
    device: DeviceOption = None,
    calibrate: CalibrateOption = False,
    board: BoardOption = None,
    allow_mixed: AllowMixedOption = False,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Predict time, throughput and energy of MODELS over batch sizes; measures nothing."""
    request = api.PredictionRequest(
        runs=tuple(runs or ("runs",)),
        networks=tuple(api.NetworkRequest(name=name) for name in models or ()),
        batches=parse_batches(batch_sizes),
        precisions=parse_precisions(precision),
        dims=parse_dimensions(dim or []),
        prompts=parse_tokens("--prompt", prompt),
        contexts=parse_tokens("--context", context),
        phase=phase,
        modes=None if mode in (None, "measured") else mode,
        device=device,
        board=board,
        allow_mixed=allow_mixed,
        calibrate=calibrate,
    )
    rows = api.batch(request, highest_only=mode is None, dask=dask, reporter=TerminalReporter())
    if as_json:
        print_json("batch", {"batches": rows.to_dicts()})
        return
    curves = rows.partition_by(
        "device", "mode", "network", "precision", "phase", maintain_order=True
    )
    for curve in [frame.to_dicts() for frame in curves]:
        first = curve[0]
        ran_in = "" if first["precision"] is None else f" in {first['precision']}"
        title = f"{first['network']}{ran_in} on {first['device']}, {first['mode']}"
        item = pages.item_word(first["network"])
        rows_of_curve = [_cells(row, item) for row in curve]
        intensity = f"{work_unit(first['precision'] or '')}/byte"
        columns: tuple[str, ...] = (*_BEFORE, intensity, "bound by", "remark")
        beside = ""
        engines = dict.fromkeys(row["engine"] for row in curve if row["engine"] is not None)
        if engines:
            beside = f", with times measured by {' and '.join(engines)}"
            columns = (*columns[:-1], *_MEASURED, columns[-1])
            rows_of_curve = [
                (*cells[:-1], *_measured_cells(row), cells[-1])
                for cells, row in zip(rows_of_curve, curve, strict=True)
            ]
        table = Table(f"{title} ({first['source']}){beside}", columns, rows_of_curve)
        print_tables([with_items(without_silent(table, _DROPPABLE), item)])
    for line in dict.fromkeys(row["notes"] for row in rows.to_dicts() if row["notes"]):
        note(f"note: {line}")


def _measured_cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    if row["measured_s"] is None:
        return ("", "", "")
    return (
        seconds(row["measured_s"]),
        rate(row["measured_items_per_s"]),
        joules(row["measured_j"]),
    )


def _cells(row: Mapping[str, Any], item: str) -> tuple[str, ...]:
    cells = predicted_cells(row.__getitem__, row["items_per_s"])
    intensity = row["intensity_flop_per_byte"]
    remarks = [row["remark"].replace("items", f"{item}s")] if row["remark"] else []
    if row["latency_s"] is None:
        remarks += [row["reason"]] if row["reason"] else []
    elif row["is_extrapolated"]:
        remarks.append("outside the measured clocks")
    remarks += cells.remarks
    return (
        str(row["batch"]),
        cells.time,
        cells.rate,
        cells.power,
        cells.energy,
        "unknown" if intensity is None else digits(intensity, 3),
        row["time_bound"] or "unknown",
        "; ".join(remarks),
    )
