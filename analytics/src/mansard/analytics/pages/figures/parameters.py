"""What a reader chooses, once for all charts of a page: parameters, filters and controls.

Which rows of a figure a choice shows, and the words and tables that follow it, is one rule: it
serves the page as it opens (here) and every choice of its reader (report.js).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import altair as alt
import msgspec
import polars as pl

from mansard.analytics.data.names import (
    device_labels,
    display_name,
    in_order,
    network_key,
    short_devices,
)
from mansard.analytics.data.quantities import UNKNOWN
from mansard.analytics.pages.figures.tables import (
    FIRST_ROWS,
    IN_EVERY_ROW,
    LEAST_COLUMNS,
    MOST_TABLE_ROWS,
    Column,
    batch_text,
    tabulate,
)
from mansard.analytics.pages.results import Results
from mansard.core.table import EMPTY, SILENT, Table

# "picked" is a mode too, but one that need not have been measured: any point of the grid.
Name = Literal["mode", "network", "precision", "batch", "device", "picked"]
Key = tuple[str, str]  # device and mode, as the frames of the models have them
EVERY = ""  # no network, no precision, no mode chosen
MOST_BUTTONS = 4  # of more options a control is a list that opens
# A filter: rows of the chosen precision; where none is chosen, of the one marked is_main.
OF_PRECISION = "(precision === '' ? datum.is_main : datum.precision === precision)"


@dataclass(frozen=True)
class Chosen:
    """What the charts show; the page sets it from its controls (report.js)."""

    mode: str = EVERY
    network: str = EVERY
    precision: str = EVERY
    batch: str = EVERY
    device: str = EVERY
    picked: str = EVERY

    def parameter(self, name: Name) -> alt.Parameter:
        """The parameter ``name`` at its first value; the page sets it later."""
        return alt.param(name=name, value=getattr(self, name))


def equals(name: Name) -> str:
    """A filter: rows of the chosen ``name``."""
    return f"datum.{name} === {name}"


def equals_or_all(name: Name) -> str:
    """A filter: rows of the chosen ``name``, all where none is, and always those without one."""
    return f"({name} === '' || datum.{name} === '' || datum.{name} === {name})"


def roof_devices(results: Results) -> dict[str, str]:
    """The device of each roof, by its label."""
    devices = device_labels(results.dataset.all_manifests)
    return {roof.label: devices.get(roof.run_id, roof.machine) for roof in results.roofs}


def mode_labels(results: Results) -> dict[Key, str]:
    """The label of every device and mode in ``results``: that of its roof, where it has one."""
    frames = (results.modes, results.predictions, results.observations)
    keys = sorted(
        {key for frame in frames for key in frame.select("device", "mode").unique().iter_rows()}
    )
    devices = roof_devices(results)
    # Of several runs of one mode the newest, which comes last.
    roofs = {(devices[roof.label], roof.mode): roof.label for roof in results.roofs}
    short = short_devices(device for device, _ in (*keys, *roofs))
    several = len(short) > 1
    plain = {
        (device, mode): display_name(f"{short[device]}, {mode}") if several else mode
        for device, mode in keys
    }
    return plain | roofs


class Option(NamedTuple):
    """One choice of a control; a mode is of a device, other choices are of all."""

    value: str
    text: str
    device: str = EVERY


_ALL = Option(EVERY, "all")


@dataclass(frozen=True)
class Control:
    """One choice, and the value chosen first."""

    name: Name
    title: str
    options: Sequence[Option]
    value: str

    @property
    def is_list(self) -> bool:
        """Whether it has more options than fit as buttons."""
        return len(self.options) > MOST_BUTTONS


def first_choice(results: Results) -> Chosen:
    """What the page shows first: the recommended device and mode, in one batch and precision.

    The precision is that of the most networks that ran, else of the most recommendations.
    """
    devices = device_options(results)
    picks = [
        advised.choice.device for advised in results.recommendations if advised.choice is not None
    ]
    n_roofs = Counter(roof_devices(results).values())
    # Of several one whose networks ran, of real ones first what ran here and then what others
    # recorded; then one that can save energy, then the one with most roofs; of those the first that
    # something is recommended for.
    ran = {row.device for row in results.measured if row.shown_s[0]}
    ran_here = {row.device for row in results.measured if row.source == "measured"} & ran
    recorded = set(results.observations.filter(pl.col("source") == "published")["device"])
    saving = {
        advised.device
        for advised in results.recommendations
        for other in advised.savings[:1]
        if advised.choice and other.mode != advised.choice.mode and other.energy_ratio is not None
    }
    device = max(
        [*picks, *devices],
        key=lambda name: (
            *(name in devices for devices in (ran_here, recorded, ran)),
            name in saving and n_roofs[name] > 1,
            n_roofs[name],
        ),
        default=EVERY,
    )
    start = starts(results).get(device, Start(EVERY, EVERY))
    return Chosen(
        mode=start.mode,
        batch=_first_batch(results, device),
        precision=_first_precision(results, device),
        device=device if len(devices) > 1 else EVERY,
        picked=start.picked,
    )


def _first_batch(results: Results, device: str) -> str:
    """The smallest batch that ran on ``device``, else the smallest of all."""
    batches = batch_options(results)
    ran = {batch_text(row.batch) for row in results.measured if row.device == device and row.time_s}
    return next((batch for batch in batches if batch in ran), batches[0] if batches else "1")


def _first_precision(results: Results, device: str) -> str:
    """The commonest precision of what ran on ``device``, else of what is recommended for it.

    Only one that every network has: no network is hidden at first.
    """
    options = precision_options(results)
    sets = results.predictions.group_by("network").agg(pl.col("precision").unique())
    options = [name for name in options if all(name in names for names in sets["precision"])]
    if len(precision_options(results)) < 2:
        return EVERY
    ran = [row.precision for row in results.measured if row.device == device and row.time_s]
    wanted = [
        advised.choice.precision
        for advised in results.recommendations
        if advised.choice is not None and advised.device == device
    ]
    counts = Counter(name for name in (ran or wanted) if name in options)
    return max(counts, key=lambda name: (counts[name], -options.index(name)), default=EVERY)


class Start(NamedTuple):
    """The first mode shown of a device, and the one marked where modes are drawn."""

    mode: str
    picked: str


def starts(results: Results) -> dict[str, Start]:
    """For each device the mode that is recommended most often, else its last.

    A recommended mode without a roof of its own is only marked.
    """
    labels = mode_labels(results)
    wanted: dict[str, Counter[str]] = {}
    for advised in results.recommendations:
        if advised.choice is not None:
            label = labels.get((advised.choice.device, advised.choice.mode), advised.choice.mode)
            wanted.setdefault(advised.choice.device, Counter())[label] += 1
    first = {}
    for device, modes in _modes_of_devices(results).items():
        ranked = [label for label, _ in wanted.get(device, Counter()).most_common()]
        mode = next((label for label in ranked if label in modes), modes[-1])
        first[device] = Start(mode, ranked[0] if ranked else mode)
    return first


def _modes_of_devices(results: Results) -> dict[str, list[str]]:
    """The modes to choose from, by device: those with roofs, or all if none has."""
    with_roofs: dict[str, list[str]] = {}
    for label, device in roof_devices(results).items():
        with_roofs.setdefault(device, []).append(label)
    without: dict[str, list[str]] = {}
    for (device, _), label in mode_labels(results).items():
        if device not in with_roofs:
            without.setdefault(device, []).append(label)
    return with_roofs | without


def controls(results: Results, chosen: Chosen) -> list[Control]:
    """The controls of a page about ``results``, without those that leave no choice."""
    scored = results.networks.select("model", "model_hash").unique().iter_rows()
    # Others were imported with their times alone: they have modes and no place under a roof.
    networks = in_order(
        [
            *(results.names[network_key(*key)] for key in scored),
            *results.predictions["network"].unique().to_list(),
        ]
    )
    precisions = precision_options(results)
    bar = [
        Control("device", "Device", _same(device_options(results)), chosen.device),
        Control("mode", "Power mode", mode_options(results), chosen.mode),
        Control("network", "Network", [_ALL, *_same(networks)], chosen.network),
        Control("precision", "Precision", [_ALL, *_same(precisions)], chosen.precision),
        Control("batch", "Batch", _same(batch_options(results)), chosen.batch),
    ]
    least = {"mode": 2, "network": 2, "precision": 3, "batch": 2, "device": 2}
    return [control for control in bar if len(control.options) >= least[control.name]]


def mode_options(results: Results) -> list[Option]:
    """The modes of every device; the device's own name is left out of their texts."""
    modes = _modes_of_devices(results)
    is_one = len(modes) < 2
    return [
        Option(
            label,
            display_name(label.removeprefix(f"{device}, ")),
            EVERY if is_one else device,
        )
        for device, labels in modes.items()
        for label in labels
    ]


def precision_options(results: Results) -> list[str]:
    """The precisions of all networks."""
    frames = (results.networks, results.predictions)
    return in_order([name for frame in frames for name in frame["precision"].drop_nulls()])


def batch_options(results: Results) -> list[str]:
    """The batch sizes of all networks, the smallest first."""
    batches = {batch_text(batch) for batch in results.networks["batch"].to_list()}
    return sorted(batches, key=lambda batch: (not batch.isdigit(), len(batch), batch))


def device_options(results: Results) -> list[str]:
    """The devices that have roofs or modes."""
    return in_order([*_modes_of_devices(results)])


def _same(values: Sequence[str]) -> list[Option]:
    return [Option(value, display_name(value)) for value in values]


# equal: rows of the chosen value. all: every row where none is chosen, and always those without
# one. first: where no network is chosen, those of the first. main: where no precision is chosen,
# those of the one marked ``is_main``.
How: TypeAlias = Literal["equal", "all", "first", "main"]
MOST_NAMED = 3  # values of a column that a caption lists; of more it says how many
NONE_KNOWN = ": none are known"
PLURALS = {  # of the columns that templates name
    **{name: f"{name}s" for name in ("mode", "network", "precision", "device", "reading")},
    "batch": "batch sizes",
    "n_layers": "numbers of layers",
}
# What report.js writes words and tables with when the reader chooses.
WORDING: Mapping[str, Any] = {
    "any": {name: f"any {name}" for name in PLURALS},
    "plurals": PLURALS,
    "most_named": MOST_NAMED,
    "unknown": UNKNOWN,
    "none_known": NONE_KNOWN,
    "first_rows": FIRST_ROWS,
    "most_rows": MOST_TABLE_ROWS,
    "in_every_row": IN_EVERY_ROW,
    "least_columns": LEAST_COLUMNS,
    "empty": sorted(EMPTY),
    "silent": sorted(SILENT),
}


@dataclass(frozen=True, eq=False)
class Shown:
    """The rows of ``frame`` that a choice shows: each parameter in the order of ``by``.

    ``within``: the most that a column may be. ``first``: the network shown while none is chosen.
    """

    frame: pl.DataFrame
    by: Mapping[Name, How]
    first: str = EVERY
    within: Mapping[str, float] = field(default_factory=dict)

    def resolve(self, chosen: Chosen) -> tuple[Chosen, pl.DataFrame]:
        """``chosen`` with defaults for network and precision, and the rows it shows."""
        rows = self.frame
        for name, how in self.by.items():
            value = getattr(chosen, name)
            if value == EVERY and how in {"first", "main"}:
                value = self._stand_in(name, rows)
                chosen = replace(chosen, **{name: value})
            if how == "all":
                either = (pl.col(name) == EVERY) | (pl.col(name) == value)
                rows = rows if value == EVERY else rows.filter(either)
            else:
                rows = rows.filter(pl.col(name) == value)
        for column, most in self.within.items():
            rows = rows.filter(pl.col(column) <= most)
        return chosen, rows

    def _stand_in(self, name: Name, rows: pl.DataFrame) -> str:
        there = rows.filter("is_main") if self.by[name] == "main" else rows
        values = sorted((rows if there.is_empty() else there)[name].unique().to_list())
        return self.first if self.first in values else str(values[0]) if values else EVERY

    def rule(self, rows: str) -> dict[str, Any]:
        """For report.js: this rule, with the name of its rows in the page's data."""
        return {
            "rows": rows,
            "by": dict(self.by),
            "first": self.first,
            "within": dict(self.within),
        }


def words(template: str, rows: pl.DataFrame, chosen: Chosen) -> str:
    """``template`` with each {column} as ``rows`` have it, or as it was chosen."""

    def said(match: re.Match[str]) -> str:
        name = match[1]
        values: list[Any] = []
        if name in rows.columns:
            values = rows[name].unique(maintain_order=True).drop_nulls().to_list()
        if len(values) > MOST_NAMED:
            return f"{len(values)} {PLURALS[name]}"
        texts = [display_name(str(value)) for value in values if value != EVERY]
        if not texts and (value := getattr(chosen, name, EVERY)):
            texts = [display_name(value)]
        return " and ".join(texts) or str(WORDING["any"][name])

    return re.sub(r"\{(\w+)\}", said, template)


def heading(text: str) -> alt.TitleParams:
    """A chart's title: ``text``, and what the chart shows now."""
    return alt.TitleParams(text=title_lines(f"'{text}, ' + heading"))


def title_lines(expression: str) -> alt.ExprRef:
    """A title by a Vega expression, in the lines that report.js breaks ``heading`` into."""
    return alt.ExprRef(f"split({expression}, '\\n')")


@dataclass(frozen=True, eq=False)
class LiveTable:
    """A table whose rows and caption follow the choice; its columns name fields of the rows."""

    name: str
    caption: str  # a template of ``words``
    columns: Sequence[Column]
    shown: Shown
    order: str = ""  # the column by which rows are sorted, the least first

    def at(self, chosen: Chosen) -> Table:
        """The table as ``chosen`` shows it."""
        resolved, rows = self.shown.resolve(chosen)
        if self.order:
            rows = rows.sort(self.order, nulls_last=True, maintain_order=True)
        caption = words(self.caption, rows, resolved) + ("" if len(rows) else NONE_KNOWN)
        if len(rows) > MOST_TABLE_ROWS:
            caption += FIRST_ROWS.format(few=MOST_TABLE_ROWS, all=f"{len(rows):,}")
        table = tabulate(caption, self.columns, rows.head(MOST_TABLE_ROWS).iter_rows(named=True))
        return msgspec.structs.replace(table, name=self.name)

    def script(self, rows: str) -> dict[str, Any]:
        """For report.js: what it fills the table with after a choice."""
        return {
            "name": self.name,
            "caption": self.caption,
            "columns": [column.script() for column in self.columns],
            "order": self.order,
            "rule": self.shown.rule(rows),
        }
