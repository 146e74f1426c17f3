"""llama-bench's output: Markdown, CSV, JSON and JSON lines.

A test is prompt processing (pp512: 512 tokens at once), text generation (tg128: 128 tokens one by
one), or both; each runs one sequence. The test is part of the network's name: they are different
amounts of work.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable

import msgspec

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.reader import (
    MOST_RUNS,
    CsvRow,
    Reader,
    ToolFile,
    ToolReading,
    at_most,
    cells,
    header_of,
    known,
    parse_json,
    read_csv,
)
from mansard.analytics.data.statistics import repetition_deviation
from mansard.core.errors import InputError
from mansard.core.formats.llama_bench import bench_test_name as _test_name
from mansard.core.weight_formats import stored_weights

_KEYS = re.compile(r'\{\s*"build_commit"')
# A model's type ends in the format of its weights: "llama 8B Q4_K - Medium".
_WEIGHTS = re.compile(r"\s((?:I?Q|TQ|B?F|MXFP|NVFP)[0-9].*)$")
_GIB, _BILLION = 2.0**30, 1e9  # of the table's columns "size" and "params"


class _Test(msgspec.Struct):
    """One row; JSON has numbers where CSV has text."""

    model_type: str
    n_prompt: int
    n_gen: int
    avg_ns: float
    avg_ts: float
    stddev_ns: float = 0.0
    n_depth: int = 0
    build_number: int | str = ""
    backends: str = ""
    gpu_info: str = ""
    n_gpu_layers: int | str = ""
    n_threads: int | str = ""
    samples_ns: list[float] = []
    model_size: int = 0  # bytes
    model_n_params: int = 0
    n_batch: int = 0
    n_ubatch: int = 0
    type_k: str = ""
    type_v: str = ""
    flash_attn: bool | int | str = ""

    @property
    def options(self) -> str:
        """What a time depends on beside the model, as words of its method."""
        is_on = str(self.flash_attn).casefold() in {"1", "true", "on"}
        return "".join(
            (
                f", cache of {self.type_k}/{self.type_v}" if self.type_k and self.type_v else "",
                "" if self.flash_attn == "" else f", flash attention {'on' if is_on else 'off'}",
            )
        )

    def figures(self, time_s: float) -> dict[str, float]:
        """What the test says of the model, and of its rates."""
        return known(
            model_size_bytes=float(self.model_size),
            model_parameters=float(self.model_n_params),
            n_batch=float(self.n_batch),
            n_ubatch=float(self.n_ubatch),
            kv_key_bits=_bits(self.type_k),
            kv_value_bits=_bits(self.type_v),
        ) | _phase(self.n_prompt, self.n_gen, self.n_depth, time_s)


def _bits(name: str) -> float | None:
    weights = stored_weights(name)
    return None if weights is None else weights.main.n_bits


def _phase(n_prompt: int, n_gen: int, n_depth: int, time_s: float) -> dict[str, float]:
    """Tokens of one test, and the rate of its phase where it has one alone."""
    return {
        "depth_tokens": float(n_depth),
        "concurrency": 1.0,
    } | known(
        prompt_tokens=float(n_prompt),
        generated_tokens=float(n_gen),
        prefill_tokens_per_s=n_prompt / time_s if not n_gen and time_s > 0 else None,
        decode_tokens_per_s=n_gen / time_s if not n_prompt and time_s > 0 else None,
        token_s=time_s / n_gen if n_gen and not n_prompt else None,
    )


def _read_tests(source: ToolFile, tests: Iterable[tuple[int, _Test]]) -> ToolReading:
    rows: list[TextRow] = []
    notes: dict[str, None] = {}
    for line, test in at_most(tests, MOST_RUNS, "tests", source):
        name = _test_name(test.n_prompt, test.n_gen, test.n_depth)
        samples = [sample / 1e9 for sample in test.samples_ns]
        time_s = statistics.median(samples) if samples else test.avg_ns / 1e9
        what = "median of its repetitions" if samples else "mean of its repetitions"
        rows.append(
            _row(
                line,
                test.model_type,
                name,
                time_s,
                f"llama-bench build {test.build_number or 'unknown'}: {what}; "
                f"{test.backends or 'backend not said'}, {test.n_gpu_layers or '?'} layers on "
                f"the GPU, {test.n_threads or '?'} threads{test.options}",
                test.figures(time_s)
                | known(
                    samples=float(len(samples)),
                    deviation_s=test.stddev_ns / 1e9,
                    log_deviation=_deviation(samples),
                    tokens_per_s=test.avg_ts,
                ),
            )
        )
        if test.backends == "CPU":
            notes["it ran on the CPU: say --processor cpu"] = None
        if test.gpu_info:
            notes[f"it ran on {test.gpu_info[:80]}"] = None
    if not rows:
        raise InputError("holds no test", where=source.where, fix="run llama-bench again")
    return ToolReading(rows, list(notes))


def _deviation(samples: list[float]) -> float | None:
    is_time = bool(samples) and min(samples) > 0
    return repetition_deviation(samples) if is_time else None


def _row(
    line: int, model: str, test: str, time_s: float, method: str, figures: dict[str, float]
) -> TextRow:
    model = model.strip()
    ending = _WEIGHTS.search(model)
    weights = None if ending is None else stored_weights(ending[1])
    return TextRow(
        line,
        cells(
            network=f"{model} {test}",
            batch="1",
            precision=None if weights is None else weights.name,
            time_s=time_s,
            method=method,
            repeat=str(line),
        ),
        figures,
    )


def _read_json(source: ToolFile) -> ToolReading:
    tests = parse_json(source, list[_Test], "llama-bench")
    return _read_tests(source, enumerate(tests, start=1))


def _read_jsonl(source: ToolFile) -> ToolReading:
    tests = (
        (n, parse_json(ToolFile(f"{source.where}, line {n}", line), _Test, "llama-bench"))
        for n, line in enumerate(source.data.splitlines(), start=1)
        if line.strip()
    )
    return _read_tests(source, tests)


def _read_csv(source: ToolFile) -> ToolReading:
    rows = read_csv(source, "llama-bench")
    return _read_tests(source, ((row.line, _test_of(row, source)) for row in rows))


def _test_of(row: CsvRow, source: ToolFile) -> _Test:
    try:
        return msgspec.convert(row.cells, _Test, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(
            f"line {row.line}: {error}", where=source.where, fix="run llama-bench again"
        ) from error


_TEST = re.compile(
    r"(?:pp ?(?P<pp>[0-9]{1,12}))?\+?(?:tg ?(?P<tg>[0-9]{1,12}))?(?: @ d(?P<depth>[0-9]{1,12}))?"
)
_RATE = re.compile(r"(?P<mean>\d+(?:\.\d+)?)(?: ± (?P<sd>\d+(?:\.\d+)?))?")


def _read_markdown(source: ToolFile) -> ToolReading:
    header: list[str] = []
    rows: list[TextRow] = []
    lines = enumerate(source.text.splitlines(), start=1)
    for line, text in at_most(lines, MOST_RUNS, "lines", source):
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        if "t/s" in cells and "test" in cells and "model" in cells:
            header = cells
        elif header and len(cells) == len(header) and not set(text) <= set("|-: "):
            rows += _markdown_row(line, dict(zip(header, cells, strict=True)), source)
    if not rows:
        raise InputError("holds no test", where=source.where, fix="run llama-bench again")
    return ToolReading(rows)


def _markdown_row(line: int, row: dict[str, str], source: ToolFile) -> list[TextRow]:
    test, rate = _TEST.fullmatch(row["test"]), _RATE.fullmatch(row["t/s"])
    tokens = sum(int(test[name] or 0) for name in ("pp", "tg")) if test else 0
    mean = float(rate["mean"]) if rate else 0.0
    if not test or not rate or not tokens or mean <= 0:
        raise InputError(
            f"line {line}: {row['test'][:20]!r} at {row['t/s'][:20]!r} t/s is not a test",
            where=source.where,
            fix="run llama-bench again",
        )
    name = _test_name(int(test["pp"] or 0), int(test["tg"] or 0), int(test["depth"] or 0))
    time_s, deviation = tokens / mean, float(rate["sd"] or 0.0)
    method = (
        f"llama-bench: tokens of the test over the mean tokens a second; {row.get('backend', '?')}"
    )
    # To first order the time deviates by the same share as its inverse.
    figures = known(
        tokens_per_s=mean,
        deviation_s=time_s * deviation / mean,
        model_size_bytes=_amount(row.get("size", ""), "GiB", _GIB),
        model_parameters=_amount(row.get("params", ""), "B", _BILLION),
    ) | _phase(int(test["pp"] or 0), int(test["tg"] or 0), int(test["depth"] or 0), time_s)
    return [_row(line, row["model"], name, time_s, method, figures)]


def _amount(text: str, unit: str, factor: float) -> float | None:
    """The number of "4.58 GiB"; None where the cell is in another unit."""
    match = re.fullmatch(rf"([0-9]{{1,9}}(?:\.[0-9]+)?) {unit}", text)
    return None if match is None else float(match[1]) * factor


_MARKDOWN = re.compile(r"^\|\s*model\s*\|.*\|\s*t/s\s*\|\s*$", re.MULTILINE)
LLAMA_JSON = Reader(
    "llama-bench's JSON",
    lambda head: head.lstrip()[:1] == "[" and _KEYS.match(head.lstrip("[ \r\n\t")) is not None,
    _read_json,
)
LLAMA_JSONL = Reader(
    "llama-bench's JSON lines", lambda head: _KEYS.match(head.lstrip()) is not None, _read_jsonl
)
LLAMA_CSV = Reader(
    "llama-bench's CSV",
    lambda head: {"model_type", "n_prompt", "n_gen", "avg_ns", "avg_ts"} <= set(header_of(head)),
    _read_csv,
)
LLAMA_MARKDOWN = Reader(
    "llama-bench's table", lambda head: _MARKDOWN.search(head) is not None, _read_markdown
)
