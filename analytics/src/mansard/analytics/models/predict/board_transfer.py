"""Times of networks on a board, carried over from another board where they were recorded.

An anchor is a network that was measured on this board and is recorded on the other one, in the same
batch and precision by the same kind of engine. Through the anchors goes the line of ``board_line``;
each network that is recorded on the other board takes what the line says. Of several boards the
one with the narrowest interval counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import PREDICTION_KEY, PREDICTION_SCHEMA
from mansard.analytics.data.names import first_names, plain_network
from mansard.analytics.data.quantities import counted
from mansard.analytics.models.predict.board_line import (
    CountedAnchors,
    best_anchor,
    carry_counted,
    fit_board_line,
)
from mansard.analytics.models.predict.totals_fit import Array

# ``transfer_half``: half the width of the 95 % interval of ln of ``transfer_s``.
TRANSFER_SCHEMA: FrameSchema = {
    **{name: PREDICTION_SCHEMA[name] for name in ("mode", *PREDICTION_KEY)},
    "transfer_s": pl.Float64,
    "transfer_half": pl.Float64,
    "transfer_note": pl.String,
}
_SETTING = ("batch", "precision", "phase")
# Median and nine-of-ten error of networks left out on pairs of recorded Jetsons, by the number of
# anchors: of boards that differ by at most a factor of two, and of others. From
# benchmarks/board_transfer.py; tests/analytics/test_board_transfer_recorded.py makes them again.
LEFT_OUT = {
    "near": {1: (0.08, 0.30), 2: (0.07, 0.22), 4: (0.06, 0.19)},
    "far": {1: (0.15, 0.47), 2: (0.13, 0.45), 4: (0.13, 0.41)},
}
_NEAR, _ROUNDING = 2.0, 1e-9  # times as fast, and of its logarithm


@dataclass(frozen=True, eq=False)
class Transfers:
    """``times``: TRANSFER_SCHEMA, a row for each network and mode; ``notes``: a line for each
    board whose networks were carried over, or could be if an anchor was measured.
    """

    times: pl.DataFrame
    notes: tuple[str, ...]


class _Recorded(NamedTuple):
    network: str
    plain: str
    side_px: int | None
    seconds: float


class _Networks:
    """The networks of one board in one mode, batch, precision and phase, by one engine."""

    def __init__(self, rows: pl.DataFrame) -> None:
        names = ("network", "plain", "side_px", "time_s")
        self.rows = [_Recorded(*row) for row in rows.select(names).iter_rows()]
        self._same = {(row.plain, row.side_px): row for row in self.rows}
        self._sides: dict[str, list[_Recorded]] = {}
        for row in self.rows:
            self._sides.setdefault(row.plain, []).append(row)

    def find(self, plain: str, side_px: int | None) -> _Recorded | None:
        """The network, by a name without a side only where it is recorded in one alone."""
        same = self._same.get((plain, side_px))
        if same is None and side_px is None and len(self._sides.get(plain, ())) == 1:
            return self._sides[plain][0]
        return same


def called(recorded: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows of ``recorded`` that are of the network ``name``."""
    plain, side_px = plain_network(name)
    return recorded.filter(pl.col("plain") == plain, pl.col("side_px").eq_missing(side_px))


def transfer_times(
    recorded: pl.DataFrame, wanted: pl.DataFrame, roofed: pl.DataFrame | None = None
) -> Transfers:
    """Times of ``wanted`` (PREDICTION_KEY) on their devices, by ``recorded`` (RECORDING_SCHEMA).

    In the modes of a device in which an anchor was measured. Of the engines of a device that counts
    which ran the most networks. ``roofed``: PREDICTION_SCHEMA with SHARE_SCHEMA and ``n_launches``
    of scored networks, anchors among them, at the roofs.
    """
    parts = _parts_of(roofed, recorded)
    times: list[dict[str, object]] = []
    notes: list[str] = []
    for (device,), asked in (
        wanted.unique(maintain_order=True)
        .partition_by("device", as_dict=True, maintain_order=True)
        .items()
    ):
        here, elsewhere = _split(recorded, str(device))
        if here.is_empty():
            continue
        carried = list(_carried(here, elsewhere, asked, parts))
        times += carried
        names = {str(row["network"]) for row in carried}
        notes += _notes(str(device), carried)
        rest = asked.filter(~pl.col("network").is_in(sorted(names)))
        notes += _missing(str(device), here, elsewhere, rest)
    return Transfers(pl.DataFrame(times, schema=TRANSFER_SCHEMA), tuple(notes))


def _split(recorded: pl.DataFrame, device: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of ``device`` by the engine that ran the most networks, and those of other boards.

    Those are by the same engine; where nothing was measured here by any, and not simulated.
    Simulated times are never carried to a real board, nor real ones to a simulated board.
    """
    is_here, is_simulated = pl.col("board") == device, pl.col("source") == "simulated"
    here, elsewhere = recorded.filter(is_here), recorded.filter(~is_here)
    if here.is_empty():
        return here, elsewhere.filter(~is_simulated)
    counts = here.group_by("engine", "source", maintain_order=True)
    most = counts.agg(n=pl.col("plain").n_unique()).sort("n", descending=True, maintain_order=True)
    engine, source = most.select("engine", "source").row(0)
    is_alike = (pl.col("engine") == engine) & (is_simulated == (source == "simulated"))
    return here.filter(is_alike), elsewhere.filter(is_alike)


# PARTS of totals_fit by the name of a network, by device, mode and setting.
_Parts = Mapping[tuple[object, ...], Mapping[str, Array]]


def _parts_of(roofed: pl.DataFrame | None, recorded: pl.DataFrame) -> _Parts:
    """Of the networks in modes in which some were measured."""
    parts: dict[tuple[object, ...], dict[str, Array]] = {}
    if roofed is None:
        return parts
    is_known = pl.col("latency_s").is_finite() & (pl.col("latency_s") > 0)
    places = recorded.select("mode", device="board").unique()
    rows = roofed.filter(is_known).join(places, on=["device", "mode"], how="semi")
    columns = ("device", "mode", *_SETTING, "network", "compute_s", "memory_s", "n_launches")
    for *place, network, compute_s, memory_s, n_launches in rows.select(columns).iter_rows():
        values = np.array([1.0, compute_s, memory_s, n_launches], dtype=np.float64)
        parts.setdefault(tuple(place), {})[network] = values
    return parts


def _carried(
    here: pl.DataFrame, elsewhere: pl.DataFrame, asked: pl.DataFrame, parts: _Parts
) -> Iterator[dict[str, object]]:
    """The narrowest time of each network of ``asked`` in each mode with an anchor."""
    device = asked["device"][0]
    for setting, rows in asked.partition_by(_SETTING, as_dict=True, maintain_order=True).items():
        same = dict(zip(_SETTING, setting, strict=True))
        names = list(dict.fromkeys(rows["network"]))
        boards = _boards(elsewhere.filter(_is(same)), names)
        own = here.filter(_is(same)).partition_by("mode", as_dict=True, maintain_order=True)
        for (mode,), measured in own.items():
            pair = _Pair(_Networks(measured), parts.get((device, mode, *setting), {}))
            best: dict[object, dict[str, object]] = {}
            for board, networks in boards.items():
                for row in pair.carry(board, networks, names):
                    last = best.setdefault(row["network"], row)
                    if float(str(row["transfer_half"])) < float(str(last["transfer_half"])):
                        best[row["network"]] = row
            yield from ({**row, **same, "mode": mode, "device": device} for row in best.values())


def _boards(elsewhere: pl.DataFrame, names: Sequence[str]) -> dict[str, _Networks]:
    """Each board that records some of ``names``, in the mode in which it records the most."""
    plain = [plain_network(name)[0] for name in names]
    counts = elsewhere.filter(pl.col("plain").is_in(plain)).group_by(
        "board", "mode", maintain_order=True
    )
    most = counts.len().sort("len", descending=True, maintain_order=True)
    places = most.unique("board", keep="first", maintain_order=True)
    rows = elsewhere.join(places, on=["board", "mode"], how="semi", maintain_order="left")
    parts = rows.partition_by("board", as_dict=True, maintain_order=True)
    return {str(board): _Networks(part) for (board,), part in parts.items()}


def _is(same: dict[str, object]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name).eq_missing(value) for name, value in same.items())


@dataclass(frozen=True, eq=False)
class _Pair:
    """The ``own`` networks of a board, and the PARTS that are known of some, by name."""

    own: _Networks
    parts: Mapping[str, Array]

    def carry(
        self, board: str, other: _Networks, names: Sequence[str]
    ) -> Iterator[dict[str, object]]:
        """What lines from ``other`` say of those of ``names`` that are not measured here."""
        pairs = [(row, other.find(row.plain, row.side_px)) for row in self.own.rows]
        anchors = [(mine, theirs) for mine, theirs in pairs if theirs is not None]
        targets = [
            (name, theirs.seconds)
            for name in names
            if (theirs := other.find(*plain_network(name))) is not None
            and self.own.find(*plain_network(name)) is None
        ]
        if not anchors or not targets:
            return
        a_s, b_s = np.array([(theirs.seconds, mine.seconds) for mine, theirs in anchors]).T
        line = fit_board_line(a_s, b_s)
        scored = self._counted(anchors)
        called_here = first_names([mine.network for mine, _ in anchors])
        note = (
            f"by its time on {board}, through {called_here} measured on both; "
            f"{left_out_words(line.ratio, line.n_anchors)}"
        )
        for name, seconds_a in targets:
            wanted = np.array([seconds_a])
            carried = line.carry(wanted)
            if scored is not None and name in self.parts:
                carried = carry_counted(carried, wanted, scored, self.parts[name][None])
            yield {
                "network": name,
                "transfer_s": float(carried.seconds[0]),
                "transfer_half": float(carried.half[0]),
                "transfer_note": note,
            }

    def _counted(self, anchors: Sequence[tuple[_Recorded, _Recorded]]) -> CountedAnchors | None:
        """Those of ``anchors`` that are scored; None where none is."""
        scored = [(mine, theirs) for mine, theirs in anchors if mine.network in self.parts]
        if not scored:
            return None
        a_s, b_s = np.array([(theirs.seconds, mine.seconds) for mine, theirs in scored]).T
        return CountedAnchors(a_s, b_s, np.stack([self.parts[mine.network] for mine, _ in scored]))


def kind_of(ratio: float) -> str:
    """The key of LEFT_OUT of two boards of which one takes ``ratio`` times as long."""
    return "near" if abs(math.log(ratio)) <= math.log(_NEAR) + _ROUNDING else "far"


def left_out_words(ratio: float, n_anchors: int) -> str:
    """How far such times were off on recorded boards, of networks that were left out."""
    kind = kind_of(ratio)
    n = max(count for count in LEFT_OUT[kind] if count <= n_anchors)
    median, nine_of_ten = LEFT_OUT[kind][n]
    return f"such times were off {median:.0%} (median), {nine_of_ten:.0%} (nine of ten)"


def _notes(device: str, carried: Sequence[dict[str, object]]) -> Iterator[str]:
    """A line for each board whose networks were carried over."""
    by_note: dict[str, list[str]] = {}
    for row in carried:
        by_note.setdefault(str(row["transfer_note"]), []).append(str(row["network"]))
    for note, networks in by_note.items():
        names = list(dict.fromkeys(networks))
        yield f"{device}: {first_names(names)} {note.replace('its time', 'times', 1)}"


def _missing(
    device: str, here: pl.DataFrame, elsewhere: pl.DataFrame, asked: pl.DataFrame
) -> Iterator[str]:
    """Which network to measure, where some are recorded elsewhere and no anchor is known."""
    for anchor in _anchors(here, elsewhere, asked):
        if not anchor.n_anchors:
            yield f"{device}: {anchor.text}"
    for name in dict.fromkeys(asked["network"]):
        n_sizes = _n_sizes(elsewhere, name)
        if n_sizes > 1:
            yield (
                f"{device}: {name} is recorded on other boards in {n_sizes} image sizes: end the "
                f"name of its file in the size, as {name}_640"
            )


def next_anchors(
    recorded: pl.DataFrame, device: str, wanted: pl.DataFrame
) -> tuple[NextAnchor, ...]:
    """Which networks to measure on ``device``, one for each batch, precision and phase.

    ``wanted``: network, batch, precision and phase; of them those count that are recorded on
    another board and were not measured on this one. Before anything was measured, by any engine.
    """
    return tuple(_anchors(*_split(recorded, device), wanted))


def _anchors(
    here: pl.DataFrame, elsewhere: pl.DataFrame, asked: pl.DataFrame
) -> Iterator[NextAnchor]:
    for setting, rows in asked.partition_by(_SETTING, as_dict=True, maintain_order=True).items():
        same = dict(zip(_SETTING, setting, strict=True))
        measured = _Networks(here.filter(_is(same)))
        names = [
            name
            for name in dict.fromkeys(rows["network"])
            if measured.find(*plain_network(name)) is None
        ]
        anchor = find_anchor(elsewhere.filter(_is(same)), names, measured)
        if anchor is not None:
            yield anchor


def _n_sizes(elsewhere: pl.DataFrame, name: str) -> int:
    """In how many sizes a network whose name says none is recorded on one board."""
    plain, side_px = plain_network(name)
    if side_px is not None:
        return 0
    sizes = elsewhere.filter(pl.col("plain") == plain).group_by("board")
    return max(sizes.agg(n=pl.col("side_px").drop_nulls().n_unique())["n"].to_list(), default=0)


@dataclass(frozen=True)
class NextAnchor:
    """The ``network`` of ``board`` to measure, so that the ``wanted``, which are recorded there by
    ``engine``, are known best. ``n_anchors``: networks that were measured on both before.
    """

    network: str
    board: str
    engine: str
    wanted: tuple[str, ...]
    n_anchors: int

    @property
    def text(self) -> str:
        """In a sentence."""
        are = "is" if len(self.wanted) == 1 else "are"
        known = counted(self.n_anchors, "network") if self.n_anchors else "no network"
        was = "was" if self.n_anchors < 2 else "were"
        return (
            f"{first_names(self.wanted)} {are} recorded on {self.board} by {self.engine}, and "
            f"{known} {was} measured on both boards: measure {self.network} next, and --calibrate "
            "carries times over from there"
        )


def find_anchor(
    elsewhere: pl.DataFrame, wanted: Sequence[str], measured: _Networks
) -> NextAnchor | None:
    """The network to measure so that the ``wanted`` are known best by the times of another board.

    ``elsewhere``: RECORDING_SCHEMA of other boards in one batch, precision and phase. The board
    with most of the wanted counts. Where one network alone is wanted, another one is named: to
    measure it itself needs no other board. None where none is recorded.
    """
    best: tuple[str, str, _Networks, dict[str, _Recorded]] | None = None
    for (engine,), rows in elsewhere.partition_by(
        "engine", as_dict=True, maintain_order=True
    ).items():
        for board, networks in _boards(rows, wanted).items():
            there = {net: row for net in wanted if (row := networks.find(*plain_network(net)))}
            if len(there) > (0 if best is None else len(best[3])):
                best = (board, str(engine), networks, there)
    if best is None:
        return None
    name, kind, recorded, there = best
    both = [row for own in measured.rows if (row := recorded.find(own.plain, own.side_px))]
    taken = [*both, *(there.values() if len(there) == 1 else ())]
    others = [row for row in recorded.rows if row not in taken]
    choices = list(there.values()) if len(there) > 1 else others
    if not choices:
        return None
    at = best_anchor(_logs(choices), _logs(there.values()), _logs(both))
    return NextAnchor(choices[at].network, name, kind, tuple(there), len(both))


def _logs(rows: Iterable[_Recorded]) -> Array:
    return np.log(np.array([row.seconds for row in rows], dtype=np.float64))
