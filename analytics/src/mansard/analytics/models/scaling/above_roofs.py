"""Observed networks that are faster than their arithmetic allows: in no fit, and why.

The arithmetic is that of their scores, the peaks those of the module at the clocks of the mode; of
a card that is no known module those that were measured or published in the mode, with a quarter of
slack. Networks without a score, and CPUs, are not judged here; published networks of the zoo are
judged as they are imported (``data.published.doubts``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA
from mansard.analytics.data.names import display_name, network_key
from mansard.analytics.data.published.claims import (
    AboveRoof,
    ClaimedWork,
    Peaks,
    above_roof,
    mode_peaks,
)
from mansard.analytics.data.published.doubts import modules_called

_SETTING = ("batch", "precision", "phase")
# Engines that build fp32 without TF32 (``inference.engines``); ONNX Runtime's has it by default.
_WITHOUT_TF32 = ("tensorrt", "trtexec")
_MOST_OVER = 1.25  # above measured peaks: those of kernels are not the highest there can be


@dataclass(frozen=True)
class Claimed:
    """A network that ran in a mode of a device, and what its time questions."""

    device: str
    mode: str
    network: str
    batch: int | None
    precision: str
    claim: AboveRoof

    @property
    def text(self) -> str:
        """All of it in a line."""
        return f"{display_name(self.network)} in {display_name(self.mode)}: {self.claim.text}"


@dataclass(frozen=True, eq=False)
class Judged:
    """``rows``: OBSERVATION_SCHEMA, without the times and powers of those that are refused."""

    rows: pl.DataFrame
    claims: tuple[Claimed, ...]

    def notes(self) -> Iterator[str]:
        """A line for each device with times that no model uses: the worst."""
        refused: dict[str, list[Claimed]] = {}
        for claimed in self.claims:
            if claimed.claim.is_refused:
                refused.setdefault(claimed.device, []).append(claimed)
        for device, rows in refused.items():
            worst = max(rows, key=lambda row: row.claim.ratio)
            times = "1 time that is" if len(rows) == 1 else f"{len(rows)} times that are"
            yield f"{device}: no model uses {times} above the roof: {worst.text}"


def judge(
    observations: pl.DataFrame,
    layers: pl.DataFrame,
    names: Mapping[str, str],
    modes: pl.DataFrame,
    coefficients: pl.DataFrame,
) -> Judged:
    """``observations`` (OBSERVATION_SCHEMA) against the arithmetic of ``layers`` (LAYER_SCHEMA).

    ``names``: of networks, as ``data.names.network_names``; ``modes``: MODE_SCHEMA;
    ``coefficients``: COEFFICIENT_SCHEMA, as measured or published.
    """
    scored = set(names.values()) | set(layers["model"].unique().to_list())
    timed = observations.with_row_index("at").filter(
        pl.col("latency_s") > 0,
        pl.col("source") != "simulated",  # its kernels run on this machine
        pl.col("phase") == "inference",
        pl.col("network").is_in(list(scored)),
    )
    if timed.is_empty():
        return Judged(observations, ())
    works = _works(layers, names)
    peaks_of = ModePeaksTable(modes, coefficients)
    claims: dict[int, Claimed] = {}
    for row in timed.iter_rows(named=True):
        work = works.get(tuple(row[name] for name in ("network", *_SETTING)))
        peaks = peaks_of.find(row["device"], row["mode"], row["engine"])
        claim = above_roof(row["latency_s"], work, peaks) if work and peaks else None
        if claim is not None:
            where = {name: row[name] for name in ("device", "mode", "network", *_SETTING[:2])}
            claims[row["at"]] = Claimed(**where, claim=claim)
    refused = {at: one.claim.text for at, one in claims.items() if one.claim.is_refused}
    return Judged(_without(observations, refused), tuple(claims.values()))


def _without(observations: pl.DataFrame, refused: Mapping[int, str]) -> pl.DataFrame:
    """``observations`` without what is refused, by the place of the row: times and powers."""
    if not refused:
        return observations
    at = pl.int_range(pl.len())
    is_refused = at.is_in(list(refused))
    why = at.replace_strict(dict(refused), default=None, return_dtype=pl.String)
    values = [
        name for name in OBSERVATION_SCHEMA if name.startswith(("latency_", "power_", "energy_"))
    ]
    return observations.with_columns(
        *(pl.when(~is_refused).then(pl.col(name)).alias(name) for name in values),
        reason=pl.when(is_refused).then(why).otherwise("reason"),
    )


class ModePeaksTable:
    """The peaks of GPUs in modes: of known modules as published, of others as in their rows."""

    def __init__(self, modes: pl.DataFrame, coefficients: pl.DataFrame) -> None:
        settings = modes.select("device", "mode", "n_sms", "gpu_hz").iter_rows()
        self._settings = {(device, mode): (n_sms, hz) for device, mode, n_sms, hz in settings}
        rates = coefficients.filter(pl.col("quantity") == "peak", pl.col("value") > 0)
        self._rates: dict[tuple[str, str], dict[str, float]] = {}
        for device, mode, precision, value in rates.select(
            "device", "mode", "subject", "value"
        ).iter_rows():
            of_mode = self._rates.setdefault((device, mode), {})
            of_mode[precision] = max(value, of_mode.get(precision, 0.0))

    def find(self, device: str, mode: str, engine: str | None) -> Peaks | None:
        """Of several modules that ``device`` may be, the fastest one's; None for a CPU.

        Without TF32 where ``engine``, of a run measured here, has it off in fp32.
        """
        if "CPU" in device.split():
            return None
        peaks = self._find(device, mode)
        if peaks is None or engine is None or not engine.casefold().startswith(_WITHOUT_TF32):
            return peaks
        rates = {name: rate for name, rate in peaks.flop_per_s.items() if name != "tf32"}
        return peaks._replace(flop_per_s=rates)

    def _find(self, device: str, mode: str) -> Peaks | None:
        settings = self._settings.get((device, mode), (None, None))
        known = [mode_peaks(module, *settings) for module in modules_called(device)]
        if known:
            return max(known, key=lambda peaks: peaks.flop_per_s.get("fp32", 0.0))
        rates = self._rates.get((device, mode))
        return Peaks(device, 0, rates, slack=_MOST_OVER) if rates else None


def _works(layers: pl.DataFrame, names: Mapping[str, str]) -> dict[tuple[object, ...], ClaimedWork]:
    """The multiply-adds of each scored network; without those of which a layer is not known."""
    n_outputs = pl.col("output_bytes") / pl.col("layer_precision").replace_strict(
        {"fp64": 8, "fp32": 4}, default=None, return_dtype=pl.Float64
    )
    # 3 × 3 filters: an output has nine multiply-adds for each input channel.
    is_winograd = (pl.col("op_type") == "Conv") & (
        (pl.col("macs") / n_outputs).round(6) % 9 == 0
    ).fill_null(value=False)
    flop = pl.col("multiply_add_flop")
    sums = (
        layers.group_by(
            "score_id", "model", "model_hash", *_SETTING, "layer_precision", maintain_order=True
        )
        .agg(
            flop=pl.when(flop.null_count() == 0).then(flop.sum()),
            winograd=flop.filter(is_winograd).sum(),
        )
        .filter(pl.col("flop").is_null() | (pl.col("flop") > 0))
    )
    works: dict[tuple[object, ...], ClaimedWork] = {}
    for (_, model, model_hash, *setting), rows in sums.group_by(
        "score_id", "model", "model_hash", *_SETTING, maintain_order=True
    ):
        amounts = dict(zip(rows["layer_precision"].to_list(), rows["flop"].to_list(), strict=True))
        if None in amounts.values():
            continue
        name = names.get(network_key(str(model), str(model_hash)), str(model))
        share = float(rows["winograd"].sum()) / sum(amounts.values())
        works.setdefault((name, *setting), ClaimedWork(amounts, share))
    return works


def judge_layers(
    timed: pl.DataFrame, groups: pl.DataFrame, peaks_of: ModePeaksTable, claims: Sequence[Claimed]
) -> pl.DataFrame:
    """``timed`` without the times of layers that are above the roof, or of such a network.

    ``timed``: LAYER_GROUP_SCHEMA (``models.predict.timed_layers``) of devices that were measured;
    ``groups``: GROUP_SCHEMA of the same scores.
    """
    whole = {
        (claimed.device, claimed.mode, claimed.network, claimed.batch, claimed.precision)
        for claimed in claims
        if claimed.claim.is_refused
    }
    work = ("tensor_precision", "tensor_flop", "cuda_precision", "cuda_flop")
    key = ("device", "mode", "network", "batch", "precision", "score_id", "layer", "engine")
    joined = timed.join(
        groups.select("score_id", "group", "op_class", *work), on=["score_id", "group"], how="left"
    )
    refused = []
    for values, rows in joined.group_by(key, maintain_order=True):
        peaks = peaks_of.find(str(values[0]), str(values[1]), str(values[-1]))
        measured_s = rows["measured_s"][0]
        if peaks is None or not measured_s:
            continue
        claim = above_roof(measured_s, _work_of(rows), peaks)
        if values[:5] in whole or (claim is not None and claim.is_refused):
            refused.append(dict(zip(key, values, strict=True)))
    if not refused:
        return timed
    marks = pl.DataFrame(refused, schema={name: timed.schema[name] for name in key})
    marked = timed.join(
        marks.with_columns(is_refused=True),
        on=list(key),
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    believed = pl.when(pl.col("is_refused").is_null()).then("measured_s")
    return marked.with_columns(measured_s=believed).drop("is_refused")


# Classes whose work is multiply-adds; Winograd may run convolutions.
_PRODUCTS = ("conv", "matmul")


def _work_of(groups: pl.DataFrame) -> ClaimedWork:
    """The multiply-adds of the groups of one layer."""
    flop: dict[str, float] = {}
    winograd = 0.0
    for row in groups.iter_rows(named=True):
        is_product = row["op_class"] in _PRODUCTS
        amounts = [(row["tensor_precision"], row["tensor_flop"])]
        amounts += [(row["cuda_precision"], row["cuda_flop"])] if is_product else []
        for precision, amount in amounts:
            if precision is not None and amount:
                flop[precision] = flop.get(precision, 0.0) + amount
                winograd += amount if row["op_class"] == "conv" else 0.0
    total = sum(flop.values())
    return ClaimedWork(flop, winograd / total if total else None)
