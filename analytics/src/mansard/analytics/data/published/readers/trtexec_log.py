"""What trtexec prints: options, a performance summary, layers (``--dumpProfile``); or its JSON.

5.x and 6.x print averages alone ("Average over 10 runs is 5.4 ms (host walltime is …"), 7.x one
number a line ("GPU Compute", "median: 4.4 ms"), later versions one line for each time ("GPU Compute
Time: min = …, median = … ms"). A file may hold several runs, and text between.

NVIDIA's trt-engine-explorer keeps such a log as JSON, ``*.metadata.json``: the performance summary
is a run; the options of a build and the properties of a card hold no time, and describe the other
files of the same command.
"""

from __future__ import annotations

import io
import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from mansard.analytics.data.published.cells import LayerRow, TextRow
from mansard.analytics.data.published.readers.reader import (
    MOST_LAYERS,
    MOST_RUNS,
    MOST_TOOL_BYTES,
    Reader,
    ToolFile,
    ToolReading,
    at_most,
    cells,
    known,
    network_of,
    parse_json,
    seconds_of_ms,
)
from mansard.analytics.data.published.readers.trtexec_method import QueryTimes, TrtexecSetting
from mansard.core.errors import InputError
from mansard.core.formats.tensorrt import (
    CUDA_GRAPH,
    GRAPH_REFUSED,
    printed_line,
    printed_option,
    version_in,
)

_SUMMARY = re.compile(r'^\s*\{\s*"performance_summary"\s*:')
_BUILD = re.compile(r'^\s*\{\s*"(?:model_options|build_options)"\s*:')
_CARD = re.compile(r'^\s*\[?\s*\{\s*"Name"\s*:\s*"[^"]*"\s*,\s*"ComputeCapability"')
_MEDIAN_AT = 3  # of [least, most, mean, median, percentiles…]


class _Performance(msgspec.Struct):
    throughput: float | None = msgspec.field(default=None, name="Throughput")
    latency: list[float] = msgspec.field(default=[], name="Latency")
    compute: list[float] = msgspec.field(default=[], name="GPU Compute Time")
    enqueue: list[float] = msgspec.field(default=[], name="Enqueue Time")
    copy_in: list[float] = msgspec.field(default=[], name="H2D Latency")
    copy_out: list[float] = msgspec.field(default=[], name="D2H Latency")
    total_s: float | None = msgspec.field(default=None, name="Total Host Walltime")


class _Summary(msgspec.Struct):
    performance_summary: _Performance
    inference_options: dict[str, object] = {}
    device_information: dict[str, object] = {}


class _Build(msgspec.Struct):
    model_options: dict[str, object] = {}
    build_options: dict[str, object] = {}


class _Card(msgspec.Struct):
    name: str = msgspec.field(name="Name")


def _read_summary(source: ToolFile) -> ToolReading:
    summary = parse_json(source, _Summary, "trt-engine-explorer's metadata")
    performance = summary.performance_summary
    if len(performance.compute) <= _MEDIAN_AT:
        raise InputError(
            "has no GPU compute time in its performance summary",
            where=source.where,
            fix="export it again",
        )
    setting = TrtexecSetting(options={k: str(v) for k, v in summary.inference_options.items()})
    medians = QueryTimes(
        performance.compute[_MEDIAN_AT],
        *map(_median, (performance.enqueue, performance.copy_in, performance.copy_out)),
    )
    figures = known(
        queries_per_s=performance.throughput,
        least_s=performance.compute[0] / 1e3,
        enqueue_s=seconds_of_ms(medians.enqueue_ms),
        host_latency_s=seconds_of_ms(_median(performance.latency)),
    )
    row = TextRow(
        1,
        cells(
            time_s=performance.compute[_MEDIAN_AT] / 1e3,
            batch=setting.batch,
            method=setting.method("median GPU compute time"),
            remark=medians.remark(),
        ),
        figures,
    )
    card = summary.device_information.get("Selected Device")
    notes = [f"it was measured on {card}"] if card else []
    return ToolReading([row], [*notes, *shape_notes(setting)])


def _median(times_ms: list[float]) -> float | None:
    return times_ms[_MEDIAN_AT] if len(times_ms) > _MEDIAN_AT else None


def shape_notes(setting: TrtexecSetting) -> list[str]:
    """How to say the batch where the file has only the shape of its input."""
    if setting.batch is not None or setting.input_shape is None:
        return []
    shape = setting.input_shape[:80]
    return [f"its input is {shape}: say --fixed batch=N if the first dimension is the batch"]


def _read_build(source: ToolFile) -> ToolReading:
    build = parse_json(source, _Build, "trt-engine-explorer's metadata")
    options = {**build.build_options, **build.model_options}
    setting = TrtexecSetting(options={name: str(value) for name, value in options.items()})
    model = network_of(setting.model or "")
    return ToolReading(says=cells(network=model, precision=setting.precision))


def _read_card(source: ToolFile) -> ToolReading:
    try:
        (card,) = parse_json(source, list[_Card], "trt-engine-explorer's metadata")
    except ValueError as error:
        raise InputError("is of several cards", where=source.where, fix="leave it out") from error
    return ToolReading(notes=[f"it is of {card.name}"])


TRTEXEC_SUMMARY = Reader(
    "trt-engine-explorer's summary", lambda head: _SUMMARY.match(head) is not None, _read_summary
)
TRTEXEC_BUILD = Reader(
    "trt-engine-explorer's build options",
    lambda head: _BUILD.match(head) is not None,
    _read_build,
)
TRTEXEC_CARD = Reader(
    "trt-engine-explorer's card", lambda head: _CARD.match(head) is not None, _read_card
)


_LOG = re.compile(
    r"^\s*&&&& (?:RUNNING|PASSED|FAILED) TensorRT\.trtexec|=== Performance summary ===\s*$"
    r"|\[I\] (?:GPU Compute|Host Latency)\s*$"
    r"|^(?:\[\S*\] )*Average over [0-9]+ runs is [\d.]+ ms \(host walltime",
    re.MULTILINE,
)
# All are matched at the beginning of a line, so that none takes longer than the line is long.
_TIME = re.compile(
    r"(?P<what>[A-Z][\w -]*): min = (?P<least>[\d.]+).*?median = (?P<median>[\d.]+) ms"
)
_UNSTABLE = re.compile(r"\* GPU compute time is unstable, with coefficient of variance = ([\d.]+)%")
# Of 7.x and later; of 5.x and 6.x the time of the GPU, and of the host with its wait.
_AVERAGES = re.compile(r"Average on [0-9]+ runs - .*enqueue (?P<enqueue>[\d.]+) ms")
_OLD_AVERAGES = re.compile(
    r"Average over [0-9]+ runs is (?P<compute>[\d.]+) ms"
    r"(?: \(host walltime is (?P<host>[\d.]+) ms)?"
)
_P99 = re.compile(r".*percentile(?:\(99%\) = (?P<new>[\d.]+) ms|: (?P<old>[\d.]+) ms at 99%)")
_MEDIAN = re.compile(r"median: (?P<median>[\d.]+) ms")
_QUERIES = re.compile(r"Timing trace has (?P<n>[0-9]{1,18}) queries")
_THROUGHPUT = re.compile(r"[Tt]hroughput: (?P<rate>[\d.]+) qps")
_PROFILE = re.compile(r"=== Profile \((?P<n>[0-9]{1,18}) iterations")
_OLD_TIMES = ("Host Latency", "Enqueue Time", "GPU Compute")
_LONGEST_LINE = 20_000


@dataclass
class _Run:
    """One run of trtexec, as far as its lines are read."""

    line: int
    command: str = ""
    version: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    times_ms: dict[str, float] = field(default_factory=dict)
    p99_ms: float | None = None
    least_ms: float | None = None
    variation: float | None = None  # standard deviation over mean, where trtexec finds it large
    queries: int | None = None
    queries_per_s: float | None = None
    layers: list[LayerRow] = field(default_factory=list)
    profiled: int | None = None
    columns: tuple[str, ...] = ()  # of the profile's table
    has_failed: bool = False
    is_graph_refused: bool = False
    averages_ms: dict[str, list[float]] = field(default_factory=dict)  # each of several queries
    part: str = ""  # of the old summary that the next lines are of

    @property
    def has_results(self) -> bool:
        return bool(self.compute_ms or self.queries_per_s or self.layers)

    @property
    def compute_ms(self) -> float | None:
        return self._time("GPU Compute Time", "GPU Compute", average="compute")

    @property
    def host_ms(self) -> float | None:
        return self._time("Latency", "Host Latency", average="host")

    @property
    def medians(self) -> QueryTimes:
        return QueryTimes(
            self.compute_ms,
            self._time("Enqueue Time", average="enqueue"),
            self.times_ms.get("H2D Latency"),
            self.times_ms.get("D2H Latency"),
            self.variation,
        )

    def _time(self, *names: str, average: str) -> float | None:
        """The median under one of these names, else that of the averages of several queries."""
        known = next((time for name in names if (time := self.times_ms.get(name))), None)
        averages = self.averages_ms.get(average)
        return statistics.median(averages) if known is None and averages else known

    @property
    def setting(self) -> TrtexecSetting:
        return TrtexecSetting(self.version, self.command, self.options)


def _read(source: ToolFile) -> ToolReading:
    runs = list(at_most(_runs(source), MOST_RUNS, "runs of trtexec", source))
    finished = [run for run in runs if run.has_results]
    if not finished:
        failed = any(run.has_failed for run in runs)
        raise InputError(
            "is of a run of trtexec that failed" if failed else "ends before trtexec's summary",
            where=source.where,
            fix="run it again and keep all that it prints: trtexec … 2>&1 | tee LOG",
        )
    rows = [_row(run, number) for number, run in enumerate(finished, start=1)]
    if len(finished) == 1:
        rows[0].cells.pop("repeat")
    notes = [note for run in finished for note in shape_notes(run.setting)]
    return ToolReading(rows, list(dict.fromkeys(notes)))


def _runs(source: ToolFile) -> Iterator[_Run]:
    run = _Run(1)
    for number, raw in enumerate(io.StringIO(source.text), start=1):
        if len(raw) > _LONGEST_LINE:
            continue
        line = printed_line(raw)[1]
        is_end = line.startswith(("&&&& PASSED", "&&&& FAILED"))
        _, command, options = line.partition("trtexec --")
        if command and not is_end:
            yield run
            run = _Run(number, command=f"--{options}", version=version_in(line))
        elif "=== Performance summary ===" in line and run.compute_ms:
            yield run
            run = _Run(number, run.command, run.version, run.options)
        else:
            _take(run, line)
            if len(run.layers) > MOST_LAYERS:
                raise InputError(
                    f"holds more than {MOST_LAYERS:,} layers", where=source.where, fix="split it"
                )
    yield run


def _take(run: _Run, line: str) -> None:
    """Add one line of the log to its run."""
    run.version = run.version or version_in(line)
    run.has_failed |= line.startswith("&&&& FAILED")
    if _take_time(run, line) or _take_layer(run, line):
        return
    if (queries := _QUERIES.match(line)) is not None:
        run.queries = int(queries["n"])
    elif (unstable := _UNSTABLE.match(line)) is not None:
        run.variation = _number(unstable[1]) / 100
    elif (rate := _THROUGHPUT.match(line)) is not None:
        run.queries_per_s = _number(rate["rate"]) or None  # 7.x prints 0 qps
    elif GRAPH_REFUSED in line:
        run.is_graph_refused, run.options[CUDA_GRAPH.option] = True, "Disabled"
    elif not run.times_ms and (option := printed_option(line)) is not None:
        run.options.setdefault(*option)


def _take_time(run: _Run, line: str) -> bool:
    """Whether the line is one of the performance summary's times."""
    if line in _OLD_TIMES:
        run.part = line
    elif (time := _TIME.match(line)) is not None:
        run.times_ms[time["what"]] = _number(time["median"])
        if time["what"] == "GPU Compute Time":
            run.p99_ms, run.least_ms = _p99(line), _number(time["least"])
    elif run.part and (time := _MEDIAN.match(line)) is not None:
        run.times_ms[run.part] = _number(time["median"])
    elif run.part == "GPU Compute" and (p99 := _p99(line)) is not None:
        run.p99_ms = p99
    elif (averages := _AVERAGES.match(line) or _OLD_AVERAGES.match(line)) is not None:
        for what, text in averages.groupdict().items():
            if text:
                run.averages_ms.setdefault(what, []).append(_number(text))
    else:
        return False
    return True


def _take_layer(run: _Run, line: str) -> bool:
    """Whether the line is of the table that --dumpProfile prints."""
    if (profile := _PROFILE.match(line)) is not None:
        run.profiled, run.columns, run.layers, run.part = int(profile["n"]), (), [], ""
    elif run.profiled is not None and not run.columns and "Layer" in line:
        run.columns = _columns(line)
    elif run.columns and (layer := _layer(run, line)) is not None:
        run.layers.append(layer)
    else:
        return False
    return True


def _number(text: str) -> float:
    """A number as trtexec prints it; NaN, which no row accepts, for other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _p99(line: str) -> float | None:
    match = _P99.match(line)
    return _number(match["new"] or match["old"]) if match else None


_COLUMNS = re.compile(r"Layer|(?:Avg\. ?|Median ?)?(?:Time ?)?(?:\(ms\)|\(%\)|%)")


def _columns(header: str) -> tuple[str, ...]:
    """What each column of a profile is: "layer", "median", "mean", "share" or "total".

    Up to 8.5 "Layer  Time (ms)  Avg. Time (ms)  Time %", later "Time(ms)  Avg.(ms)  Median(ms)
    Time(%)  Layer".
    """
    kinds = (("Layer", "layer"), ("Median", "median"), ("Avg", "mean"), ("%", "share"))
    return tuple(
        next((kind for word, kind in kinds if word in column), "total")
        for column in _COLUMNS.findall(header)
    )


def _layer(run: _Run, line: str) -> LayerRow | None:
    """A line of --dumpProfile; None for any other, and for the total."""
    n_numbers = len(run.columns) - 1
    if run.columns[-1] == "layer":
        cells_of = line.split(None, n_numbers)
    else:
        cells_of = line.rsplit(None, n_numbers)
    if len(cells_of) != len(run.columns):
        return None
    cells = dict(zip(run.columns, cells_of, strict=True))
    name = cells.pop("layer")
    numbers = {column: _number(text) for column, text in cells.items()}
    if name == "Total" or not all(math.isfinite(number) for number in numbers.values()):
        return None
    return LayerRow(
        name=name,
        mean_s=seconds_of_ms(numbers.get("mean")),
        median_s=seconds_of_ms(numbers.get("median")),
        share=numbers["share"] / 100 if "share" in numbers else None,
        runs=run.profiled,
    )


def _row(run: _Run, number: int) -> TextRow:
    setting, medians = run.setting, run.medians
    what = "median GPU compute time" if medians.compute_ms else "queries in a second"
    if not run.times_ms and (averages := run.averages_ms.get("compute")):
        what = f"median of {len(averages)} averages of GPU compute times"
    elif run.queries:
        what += f" of {run.queries} queries"
    return TextRow(
        run.line,
        cells(
            network=network_of(setting.model or ""),
            batch=setting.batch,
            precision=setting.precision,
            time_s=seconds_of_ms(medians.compute_ms),
            method=setting.method(what),
            remark=medians.remark(is_graph_refused=run.is_graph_refused),
            repeat=str(number),
        ),
        known(
            least_s=seconds_of_ms(run.least_ms),
            enqueue_s=seconds_of_ms(medians.enqueue_ms),
            samples=None if run.queries is None else float(run.queries),
            p99_s=seconds_of_ms(run.p99_ms),
            host_latency_s=seconds_of_ms(run.host_ms),
            queries_per_s=run.queries_per_s,
        ),
        run.layers,
    )


TRTEXEC_LOG = Reader(
    "trtexec's log", lambda head: _LOG.search(head) is not None, _read, MOST_TOOL_BYTES
)
