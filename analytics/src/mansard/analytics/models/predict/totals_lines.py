"""Lines through the measured times of whole networks, of one device and phase.

All modes have a common line, and each mode in which networks were measured one of its own about
that, the further from it the more networks say so. What a run and a launch cost goes with the clock
of the CPU, where that is known of all measured modes: on a recorded AGX Orin an empty kernel takes
the same number of CPU cycles in every mode (docs/understand/calibration.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import PREDICTION_KEY, PREDICTION_SCHEMA
from mansard.analytics.models.predict.totals_fit import Array, TotalsFit, fit_totals
from mansard.core.records import Record

_SETTING = ("network", "batch", "precision")
_SAME_NETWORK = 0.5  # of what a network is off in other batches and precisions
# A measured time beside its prediction.
PAIR_SCHEMA: FrameSchema = {
    **{name: PREDICTION_SCHEMA[name] for name in ("mode", *PREDICTION_KEY)},
    "latency_s": pl.Float64,  # modelled
    "compute_s": pl.Float64,  # of it, as SHARE_SCHEMA of the engine
    "memory_s": pl.Float64,
    "launch_s": pl.Float64,
    "n_launches": pl.Float64,
    "measured_s": pl.Float64,
    "measured_w": pl.Float64,
}

_Z_95 = 1.96  # half the width of a normal 95 % interval, in standard deviations


class CallCost(Record, frozen=True, kw_only=True):
    """What a call and each launch in it cost in a mode beside work and traffic, 95 %."""

    mode: str
    n_networks: int
    call_s: float
    call_low_s: float
    call_high_s: float
    launch_s: float | None
    launch_low_s: float | None
    launch_high_s: float | None


@dataclass(frozen=True, eq=False)
class TotalsLines:
    """``pairs``: PAIR_SCHEMA, at least one row; ``cpu_hz``: of modes, empty where not of all.

    ``launch_s``: what a launch takes by timed layers, by which the parts are seconds; None where
    no layers were timed. ``start``: lines through most of the rows, from which the search for these
    begins.
    """

    pairs: pl.DataFrame
    cpu_hz: Mapping[str, float]
    launch_s: float | None = None
    start: TotalsLines | None = None

    @cached_property
    def pooled(self) -> TotalsFit:
        """The line of all modes."""
        return self._fit(self.pairs, start=None if self.start is None else self.start.pooled)

    @cached_property
    def by_mode(self) -> Mapping[str, TotalsFit]:
        """The line of each measured mode; the only mode there is has that of all modes."""
        parts = self.pairs.partition_by("mode", as_dict=True, maintain_order=True)
        if len(parts) == 1:
            return {}
        known = {} if self.start is None else self.start.by_mode
        return {
            str(mode): self._fit(part, all_modes=self.pooled, start=known.get(str(mode)))
            for (mode,), part in parts.items()
        }

    @cached_property
    def off(self) -> pl.DataFrame:
        """``pairs`` with ``off``: ln of measured over what the line of the mode says."""
        return self._with_off(self.on_line(self.pairs)[0])

    def on_line(self, rows: pl.DataFrame) -> tuple[Array, Array]:
        """Seconds of ``rows`` (PAIR_SCHEMA, measured or not), and the deviation of their ln."""
        seconds, deviation = np.empty(len(rows)), np.empty(len(rows))
        modes = rows["mode"].to_numpy()
        for mode in np.unique(modes):
            at = np.flatnonzero(modes == mode)
            fit, parts = self.by_mode.get(str(mode), self.pooled), self._parts(rows[at])
            seconds[at], deviation[at] = fit.seconds(parts), fit.deviation(parts)
        return seconds, deviation

    def own_off(self, rows: pl.DataFrame) -> tuple[Array, Array]:
        """ln of what each of ``rows`` is off its line, as its network was elsewhere.

        What it was off in other modes counts, between two of them by the time on the line; of what
        it was off in other batches and precisions half; 0 of networks that were not measured.
        Beside it whether it was measured in other modes. Where the mode has no line of its own,
        what they are off the line of all modes.
        """
        log_s = np.log(self.on_line(rows)[0])
        off, is_same = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        keys = rows.select("mode", *_SETTING).iter_rows()
        for at, (mode, network, *setting) in enumerate(keys):
            known = self._off_modes if mode in self.by_mode else self._off_pooled
            same = known.of_setting.get((network, *setting))
            if same is not None:
                is_same[at], off[at] = True, np.interp(log_s[at], *same)
            else:
                anywhere = known.of_network.get((network,), 0.0)
                off[at] = _SAME_NETWORK * known.of_network.get((network, mode), anywhere)
        return off, is_same

    @cached_property
    def _off_modes(self) -> _Off:
        return _collect_off(self.off)

    @cached_property
    def _off_pooled(self) -> _Off:
        if not self.by_mode:
            return self._off_modes
        return _collect_off(self._with_off(self.pooled.seconds(self._parts(self.pairs))))

    def _with_off(self, seconds: Array) -> pl.DataFrame:
        off = np.log(self.pairs["measured_s"].to_numpy() / seconds)
        return self.pairs.with_columns(off=pl.Series(off, dtype=pl.Float64))

    def call_costs(self) -> Iterator[CallCost]:
        """Of each measured mode, by its line."""
        parts = self.pairs.partition_by("mode", as_dict=True, maintain_order=True)
        for (name,), rows in parts.items():
            mode = str(name)
            fit, cpu_time = self.by_mode.get(mode, self.pooled), float(self._cpu_time([mode])[0])
            call_s, call_low_s, call_high_s = _span(fit, "constant", cpu_time)
            is_counted = bool((rows["n_launches"] > 0).any())
            launch = _span(fit, "launch", cpu_time) if is_counted else (None, None, None)
            no_launch = dict.fromkeys(_LAUNCH, "no launches are counted")
            yield CallCost(
                mode=mode,
                n_networks=rows["network"].n_unique(),
                call_s=call_s,
                call_low_s=call_low_s,
                call_high_s=call_high_s,
                **dict(zip(_LAUNCH, launch, strict=True)),
                unknown={} if is_counted else no_launch,
            )

    def without_each(self, name: str) -> Iterator[tuple[TotalsLines, pl.DataFrame]]:
        """Lines without the rows of each value of the column ``name``, and these rows."""
        for value in self.pairs[name].unique(maintain_order=True):
            is_left_out = pl.col(name) == value
            rest = self.pairs.filter(~is_left_out)
            if not rest.is_empty():
                lines = TotalsLines(rest, self.cpu_hz, self.launch_s, self)
                yield lines, self.pairs.filter(is_left_out)

    def _fit(
        self,
        pairs: pl.DataFrame,
        all_modes: TotalsFit | None = None,
        start: TotalsFit | None = None,
    ) -> TotalsFit:
        # The rows of a network share most of their error: n of them count as √n networks.
        n_rows = pairs.select(pl.len().over("network")).to_series().to_numpy()
        return fit_totals(
            self._parts(pairs),
            pairs["measured_s"].to_numpy(),
            1 / np.sqrt(n_rows),
            launch_s=self.launch_s,
            all_modes=all_modes,
            start=start,
        )

    def _parts(self, rows: pl.DataFrame) -> Array:
        """PARTS of each row: what a run costs, s at the roofs, launches."""
        cycles = self._cpu_time(rows["mode"].to_list())
        shares = rows.select("compute_s", "memory_s", "launch_s").to_numpy()
        spent = shares.sum(axis=1)  # a power limit stretches all of it
        stretch = rows["latency_s"].to_numpy() / np.where(spent > 0, spent, 1.0)
        launches = rows["n_launches"].to_numpy() * cycles
        return np.stack([cycles, shares[:, 0] * stretch, shares[:, 1] * stretch, launches], axis=1)

    def _cpu_time(self, modes: list[str]) -> Array:
        """How long the CPU takes in each mode, over the mean of the measured ones."""
        if not self.cpu_hz:
            return np.ones(len(modes))
        middle = float(np.mean([np.log(hz) for hz in self.cpu_hz.values()]))
        return np.array(
            [np.exp(middle) / self.cpu_hz[mode] if mode in self.cpu_hz else 1.0 for mode in modes]
        )


_LAUNCH = ("launch_s", "launch_low_s", "launch_high_s")


def _span(fit: TotalsFit, name: str, scale: float) -> tuple[float, float, float]:
    """A coefficient times ``scale``, and the ends of its interval."""
    value, low, high = (scale * fit.coefficient(name, by) for by in (0.0, -_Z_95, _Z_95))
    return value, low, high


@dataclass(frozen=True)
class _Off:
    """What measured networks are off a line, in ln.

    ``of_setting``: by _SETTING, ln of the times on the line in order, and what each is off;
    ``of_network``: the mean, by network, and by network and mode.
    """

    of_setting: Mapping[tuple[object, ...], tuple[Array, Array]]
    of_network: Mapping[tuple[object, ...], float]


def _collect_off(pairs: pl.DataFrame) -> _Off:
    lined = pairs.with_columns(log_s=pl.col("measured_s").log() - pl.col("off")).sort("log_s")
    of_setting = {
        key: (part["log_s"].to_numpy(), part["off"].to_numpy())
        for key, part in lined.partition_by(*_SETTING, as_dict=True).items()
    }
    of_network: dict[tuple[object, ...], float] = {}
    for by in (["network"], ["network", "mode"]):
        means = pairs.group_by(by).agg(pl.col("off").mean())
        of_network |= {tuple(key): off for *key, off in means.iter_rows()}
    return _Off(of_setting, of_network)
