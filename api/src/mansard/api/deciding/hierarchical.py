"""Hierarchical inference: what a small network keeps and what it offloads, and in which mode.

Networks are run on labelled samples here, on the CPU, for what they say of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as changed

from mansard.analytics.data.names import device_labels
from mansard.analytics.data.opening import open_runs
from mansard.analytics.decisions.offload.analysis import analyse
from mansard.analytics.decisions.offload.costs import median_of_blocks, mode_costs, with_decision
from mansard.analytics.decisions.offload.files import (
    check_name,
    read_mode_costs,
    read_predictions,
    write_answer,
    write_curve,
)
from mansard.analytics.decisions.offload.policies import find_published
from mansard.analytics.decisions.offload.records import (
    Amount,
    Goal,
    Hierarchical,
    HiSettings,
    Logistic,
    ModeCosts,
    Objective,
    make_amount,
)
from mansard.analytics.decisions.offload.samples import (
    NAMES,
    LabelledSamples,
    make_samples,
)
from mansard.analytics.models.predict.measured import prefer_measured
from mansard.analytics.pages.words.offload import with_words
from mansard.api.deciding.network_outputs import (
    network_outputs,
    read_samples,
    time_whole_decision,
)
from mansard.api.deciding.predictions import NetworkRequest, PredictionRequest, check, predict
from mansard.core.errors import InputError, UsageError
from mansard.core.units import QuantityKind, parse_interval
from mansard.inference.preparing.datasets import find_dataset
from mansard.sweeps.accuracies import AccuracySettings
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from numpy.typing import NDArray


_VECTORS = (*NAMES["probabilities"], *NAMES["logits"])  # of whole vectors of outputs


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """Samples, and what a sample costs. What is None is not known.

    ``samples``: .npz, .csv or .parquet of p1, p2, predicted, label and remote, or arrays by these
    names; or ``data``, on which ``network`` and ``remote_network``, ONNX files, are run on this
    CPU. ``predictions``: the remote classes of all samples, a text file with one a line. Beside
    ``samples`` the labels are those of ``data``. ``judged_on``: other samples to judge on; without
    them a share of ``samples`` is held out. ``given``: costs for all modes by their names in
    ``ModeCosts``. ``table``: CSV of costs by mode. ``local`` and ``offload``: networks of
    ``measured``, whose time and energy in each mode are taken; an offload to a network of the same
    board. ``curve``: CSV file to write, of every threshold; ``page``: HTML file. ``name``: keep the
    answer in the first folder of runs of ``measured`` under it, for ``report``.
    """

    samples: Path | Mapping[str, Any] | None = None
    data: AccuracySettings = field(default_factory=AccuracySettings)
    network: str | None = None
    remote_network: str | None = None
    predictions: Path | None = None
    judged_on: Path | Mapping[str, Any] | None = None
    given: Mapping[str, Amount] = field(default_factory=dict)
    table: Path | None = None
    local: str | None = None
    offload: str | None = None
    measured: PredictionRequest = field(default_factory=PredictionRequest)
    goal: Goal = field(default_factory=Goal)
    settings: HiSettings = field(default_factory=HiSettings)
    curve: Path | None = None
    page: Path | None = None
    name: str | None = None


def tune_offload(request: TuneRequest, reporter: Reporter = SILENT) -> Hierarchical:
    """The best rule, threshold and power mode, what they reach, and baselines.

    Measures and sets nothing, but the time of the decision in this process. Raises InputError for
    samples that cannot be, UsageError for a goal that needs what is not given, StorageError.
    """
    if request.name is not None:
        check_name(request.name)
        if "://" in request.measured.runs[0]:
            raise UsageError("an answer is kept in a folder", fix="give --runs FOLDER first")
    if request.judged_on is not None and request.settings.held_out is not None:
        what = "a share to hold out and samples to judge on exclude each other"
        raise UsageError(what, fix="leave --held-out or --judge out")
    _check_goal(request.goal)
    samples = _samples(_source(request, reporter), request)
    judged_on = None if request.judged_on is None else _samples(request.judged_on)
    (modes, device), n_searched = _modes(request, reporter), 0
    if samples.n_classes and any(mode.decision_s is None for mode in modes):
        n_searched = samples.n_classes
        modes = _with_decisions(modes, request, device, n_searched)
    goal = replace(request.goal, minimise=request.goal.minimise or _usual(request.goal, modes))
    answer = analyse(samples, modes, goal, request.settings, judged_on)
    answer = with_words(changed(answer, n_searched=n_searched))
    _write(request, answer, samples)
    return answer


def _write(request: TuneRequest, answer: Hierarchical, samples: LabelledSamples) -> None:
    """The files that were asked for."""
    if request.curve is not None:
        mode, logistic, chosen = answer.costs[0], None, answer.chosen
        if chosen is not None:
            mode = next(cost for cost in answer.costs if cost.mode == chosen.mode)
            published = request.settings.published
            logistics = {"logistic": answer.logistic, "published logistic": published}
            logistic = logistics.get(chosen.rule)
        write_curve(request.curve, samples, logistic, mode)
    if request.name is not None:
        write_answer(Path(request.measured.runs[0]), request.name, answer)
    if request.page is not None:
        from mansard.analytics.pages.report.answer_pages import write_offload_page

        name = request.name or _stem(request)
        write_offload_page(answer, name, request.page)


def _stem(request: TuneRequest) -> str:
    """The name of an answer on its page where none was given."""
    source = request.samples if request.network is None else Path(request.network)
    return source.stem if isinstance(source, Path) else "samples"


def _check_goal(goal: Goal) -> None:
    limits = {
        "--max-latency": goal.max_latency_s,
        "--max-energy": goal.max_energy_j,
        "--min-accuracy": goal.min_accuracy,
        "--beta": goal.offload_cost,
    }
    for name, value in limits.items():
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{name} {value:g} bounds nothing", fix="write a number above 0")
    if goal.min_accuracy is not None and goal.min_accuracy > 1:
        what = f"--min-accuracy {goal.min_accuracy:g} is above 1"
        raise UsageError(what, fix="write a share such as 0.9, or 90%")
    if not 0 < goal.probability < 1:
        what = f"a probability of {goal.probability:g} is never reached"
        raise UsageError(what, fix="write a number between 0 and 1")


def _usual(goal: Goal, modes: Sequence[ModeCosts]) -> Objective:
    """What is minimised where nothing was asked for: what is not limited."""
    if goal.min_accuracy is not None:
        has_energy = any(mode.local_j is not None and mode.offload_j is not None for mode in modes)
        return "energy" if has_energy else "latency"
    return "accuracy" if goal.offload_cost is None else "cost"


def _source(request: TuneRequest, reporter: Reporter) -> Path | Mapping[str, Any]:
    """The samples that are given, or those of networks that are run."""
    if (request.samples is None) == (request.network is None):
        what = "samples and a network exclude each other" if request.network else "no samples"
        raise UsageError(what, fix="give SAMPLES, or --network FILE.onnx and --data")
    if request.remote_network is not None and request.predictions is not None:
        what = "--remote-network and --remote-predictions exclude each other"
        raise UsageError(what, fix="leave one of them out")
    data = request.data
    if request.samples is not None:
        of_networks = (request.remote_network, data.preprocess, data.n_samples)
        if of_networks != (None, None, None) or (data.labels and not data.data):
            what = "--remote-network, --preprocess and --n-samples are about a network that is run"
            raise UsageError(what, fix="give --network FILE.onnx as well")
        return request.samples
    if data.data is None or request.network is None:
        raise UsageError("a network needs samples to run on", fix="give --data as well")
    return network_outputs(
        request.network, request.remote_network, data, reporter, request.predictions
    )


def _samples(
    source: Path | Mapping[str, Any], request: TuneRequest | None = None
) -> LabelledSamples:
    """Samples of a file or of arrays, with the labels and predictions that ``request`` adds."""
    where = str(source) if isinstance(source, Path) else "samples"
    columns = read_samples(source)
    if request is not None and request.samples is not None:
        columns |= _added(columns, request, where)
    return make_samples(columns, where)


def _added(
    columns: Mapping[str, NDArray[Any]], request: TuneRequest, where: str
) -> dict[str, NDArray[Any]]:
    """Labels of a data set and predictions of a server, for samples that lack them."""
    import numpy as np

    added: dict[str, NDArray[Any]] = {}
    vectors = [columns[name] for name in _VECTORS if name in columns]
    n_classes = vectors[0].shape[1] if vectors and vectors[0].ndim == 2 else 0
    n = max((len(column) for column in columns.values() if column.ndim), default=0)
    if request.data.data is not None:
        _check_lacking(columns, "label", "--data", where)
        labels = find_dataset(request.data.data, request.data.labels).labels
        if labels is None or len(labels) != n:
            n_labels = "no" if labels is None else f"{len(labels):,}"
            raise InputError(
                f"has {n_labels} labels, and {where} has {n:,} samples",
                where=str(request.data.data),
                fix="give the data set that the samples are of, in the same order",
            )
        added["label"] = np.array(labels)
    if request.predictions is not None:
        _check_lacking(columns, "remote", "--remote-predictions", where)
        added["remote"] = read_predictions(request.predictions, n, n_classes)
    return added


def _check_lacking(columns: Mapping[str, object], name: str, option: str, where: str) -> None:
    both = [alias for alias in NAMES[name] if alias in columns]
    if both:
        raise UsageError(f"{option} gives what {where} has: {both[0]}", fix=f"leave {option} out")


def _with_decisions(
    modes: Sequence[ModeCosts], request: TuneRequest, device: str, n_classes: int
) -> tuple[ModeCosts, ...]:
    """The modes with the time of a decision: of an offload run there, else of this host."""
    measured: dict[str, Amount] = {}
    if device:
        dataset = open_runs(request.measured.runs, allow_mixed=request.measured.allow_mixed)
        labels = device_labels(dataset.all_manifests)
        names = {one.run_id: one.mode_read_back.name for one in dataset.workload_manifests}
        for row in dataset.offloads:
            for timed in row.decisions:
                if timed.n_classes == n_classes and labels[row.run_id] == device:
                    measured[names[row.run_id]] = median_of_blocks(timed.seconds_s, row.source)
    here = None
    if any(mode.decision_s is None and mode.mode not in measured for mode in modes):
        here = time_whole_decision(n_classes)
    amounts = [measured.get(mode.mode, here) for mode in modes]
    return tuple(
        mode if amount is None else with_decision(mode, amount)
        for mode, amount in zip(modes, amounts, strict=True)
    )


def _modes(request: TuneRequest, reporter: Reporter) -> tuple[tuple[ModeCosts, ...], str]:
    """The costs in each mode, and the device that runs are of.

    What is given stands in the place of a table's or of runs'.
    """
    of_runs = [name for name in (request.local, request.offload) if name is not None]
    if request.table is not None and of_runs:
        what = "a table of costs and networks of runs exclude each other"
        raise UsageError(what, fix="leave --costs, or --local and --offload, out")
    if not of_runs and request.measured != PredictionRequest(runs=request.measured.runs):
        what = "--precision, --mode, --device, --board and --allow-mixed are about networks of runs"
        raise UsageError(what, fix="give --local or --offload as well")
    costs: tuple[ModeCosts, ...] = (mode_costs("", {}),)
    device = ""
    if request.table is not None:
        costs = read_mode_costs(request.table)
    elif of_runs:
        costs, device = _of_runs(request, of_runs, reporter)
    given = dict(request.given)
    both = [name for name in given if any(getattr(mode, name) is not None for mode in costs)]
    if both:
        source = "runs" if of_runs else "the table"
        reporter.note(f"note: {', '.join(both)} as given, not as {source} say it")
    unknown = [
        {key: mode.unknown[key] for key in mode.unknown if key not in given} for mode in costs
    ]
    with_given = (
        changed(mode, unknown=why, **given) for mode, why in zip(costs, unknown, strict=True)
    )
    return tuple(with_given), device


def _of_runs(
    request: TuneRequest, names: Sequence[str], reporter: Reporter
) -> tuple[tuple[ModeCosts, ...], str]:
    """Time and energy of one item by mode, at batch 1, and the device: of RUNS, or modelled."""
    rows, asked, device = _rows_of_runs(request, names, reporter)
    modes = []
    for mode in dict.fromkeys((*asked, *(mode for _, mode in rows))):
        amounts: dict[str, Amount] = {}
        reasons: dict[str, str] = {}
        for name, field_name in _fields(request):
            row = rows.get((name, mode), {})
            kind, unit = ("latency", "s") if field_name.endswith("s") else ("energy", "j")
            value = row.get(f"{kind}_{unit}")
            if value is None:
                reasons[field_name] = row.get("reason") or f"{name} has no {kind} in this mode"
            else:
                ends = (row[f"{kind}_low_{unit}"], row[f"{kind}_high_{unit}"])
                amounts[field_name] = make_amount(value, *ends, _interval(row), row["source"])
        modes.append(mode_costs(mode, amounts, reasons))
    return tuple(modes), device


def _fields(request: TuneRequest) -> Iterator[tuple[str, str]]:
    """Each network of runs with the names of its costs."""
    for part, name in (("local", request.local), ("offload", request.offload)):
        if name is not None:
            yield from ((name, f"{part}_{unit}") for unit in "sj")


def _rows_of_runs(
    request: TuneRequest, names: Sequence[str], reporter: Reporter
) -> tuple[dict[tuple[str, str], dict[str, Any]], list[str], str]:
    """The row of each network and mode, all modes, and the device.

    Raises UsageError where a network has several rows, or the device is not one.
    """
    networks = tuple(NetworkRequest(name=name) for name in names)
    predicted = predict(replace(request.measured, networks=networks), reporter)
    check(predicted, reporter)
    rows = prefer_measured(predicted)
    devices = rows["device"].unique(maintain_order=True).to_list()
    if len(devices) > 1:
        raise UsageError(f"the runs are of {' and '.join(devices)}", fix="name one with --device")
    shown = {network.display_name(): network.name for network in networks}
    by_network: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.iter_rows(named=True):
        key = (shown[row["network"]], row["mode"])
        if row["batch"] not in {1, None}:  # a program has none
            continue
        if key in by_network:
            what = f"{key[0]} has several precisions in {key[1]}"
            raise UsageError(what, fix="name one with --precision")
        by_network[key] = row
    for name in names:
        if not any(known == name for known, _ in by_network):
            what = f"{name} is unknown at batch 1, and a sample is one item"
            raise UsageError(what, fix=f"measure it: mansard measure {name} --batch 1")
    modes = predicted.modes.filter(predicted.modes["device"].is_in(devices))
    return by_network, modes["mode"].to_list(), devices[0] if devices else ""


def _interval(row: Mapping[str, Any]) -> str | None:
    """What the ends mean: of a spread outside the measured modes they are bounds, as in decide."""
    is_beyond = row["is_extrapolated"] and row["source"] == "modelled"
    return "bounds" if is_beyond and row["interval"] == "spread" else row["interval"]


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_COEFFICIENTS = re.compile(rf"({_NUMBER}),({_NUMBER}),({_NUMBER})")


def parse_logistic(text: str) -> Logistic:
    """Three coefficients, ``β,w1,w2``, or a name of ``hierarchical.logistic.DIME``; UsageError."""
    match = _COEFFICIENTS.fullmatch(text.replace(" ", ""))
    if match is None:
        return find_published(text)
    intercept, w1, w2 = (float(number) for number in match.groups())
    if max(abs(intercept), abs(w1), abs(w2)) > 1e6:
        what = f"--logistic {text}: a coefficient of more than a million decides nothing"
        raise UsageError(what, fix="give β,w1,w2 of a logistic of probabilities")
    return Logistic(name="given", intercept=intercept, w1=w1, w2=w2)


def parse_amount(option: str, text: str | None, kind: QuantityKind) -> Amount | None:
    """A cost of one sample, as ``parse_interval`` reads it; None where the option was not given."""
    if text is None:
        return None
    interval = parse_interval(option, text, kind)
    return make_amount(interval.value, interval.low, interval.high)
