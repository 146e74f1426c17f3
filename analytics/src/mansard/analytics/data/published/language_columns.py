"""Columns of tables about language models: rates and times of tokens, and how many there were.

They are no times of a batch, so they become figures of the run (see ``PublishedRun``) before the
other columns are read. A table without any rate or time of a token is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from mansard.analytics.data.published.cells import (
    EMPTY,
    TextRow,
    TextTable,
    parse_positive,
)
from mansard.analytics.data.published.columns import parse_precision_name
from mansard.core.weight_formats import stored_weights


class _Figure(NamedTuple):
    """What a column is; its numbers times ``factor`` are SI. ``tokens``: of a test, pp512."""

    name: str
    factor: float = 1.0
    is_inverse: bool = False
    tokens: tuple[str, float] | None = None


_RATES = MappingProxyType(
    {
        **dict.fromkeys(("", "output", "token", "tokens"), "tokens_per_s"),
        **dict.fromkeys(("decode", "generation", "gen", "dec"), "decode_tokens_per_s"),
        **dict.fromkeys(("prefill", "prompt", "pp"), "prefill_tokens_per_s"),
    }
)
_RATE = re.compile(r"(?:(?P<of>[a-z]+)_)?(?:tok(?:en)?s?_(?:per_)?s(?:ec)?|tps)")
_TEST_RATE = re.compile(r"(?P<test>pp|tg)(?P<n>[0-9]{1,9})(?:_(?:tok(?:en)?s?_(?:per_)?s|tps))?")
_TIMES = MappingProxyType(
    {
        **dict.fromkeys(("ttft", "first_token", "time_to_first_token"), "first_token"),
        **dict.fromkeys(("tpot", "per_token", "time_per_output_token"), "token"),
    }
)
_TIME = re.compile(
    rf"(?:(?P<before>p50|p90|p95|p99|mean|median)_)?(?P<of>{'|'.join(_TIMES)})"
    r"(?:_(?P<after>p50|p90|p95|p99|mean|median))?_(?P<unit>ms|s)"
)
_PER_TOKEN = re.compile(r"(?:decode_)?(?P<unit>ms|s)_per_token")
_NAMES = MappingProxyType(
    {
        **dict.fromkeys(
            ("prompt_tokens", "input_tokens", "input_len", "pp"), _Figure("prompt_tokens")
        ),
        **dict.fromkeys(
            ("generated_tokens", "gen_tokens", "output_tokens", "output_len", "gen"),
            _Figure("generated_tokens"),
        ),
        **dict.fromkeys(("depth", "n_depth", "context", "context_tokens"), _Figure("depth_tokens")),
        **dict.fromkeys(("concurrency", "max_concurrency"), _Figure("concurrency")),
        **dict.fromkeys(("j_per_token", "energy_per_token_j"), _Figure("energy_per_token_j")),
        **dict.fromkeys(("e_tok_mj", "mj_per_token"), _Figure("energy_per_token_j", 1e-3)),
        **dict.fromkeys(("tok_per_j", "tokens_per_j"), _Figure("energy_per_token_j", 1, True)),
        **dict.fromkeys(("weight_bytes", "model_size_bytes"), _Figure("model_size_bytes")),
        **dict.fromkeys(("file_gb", "model_gb"), _Figure("model_size_bytes", 1e9)),
        **{
            f"{phase}_energy_mj": _Figure(f"{phase}_energy_j", 1e-3)
            for phase in ("prefill", "decode")
        },
        **dict.fromkeys(("dec_w", "pdecode_w", "decode_w"), _Figure("decode_power_w")),
    }
)
_SPEAKS = ("tokens_per_s", "token_s", "first_token")  # what only a language model has
_PRECISIONS = ("quant", "quantization", "quantisation")
_TEST = re.compile(r"(pp|tg)([0-9]{1,9})")
_PHASES = {"pp": ("prompt_tokens", "prefill"), "tg": ("generated_tokens", "decode")}


def _plain(column: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", column.casefold()).strip("_")


def figure_of(column: str) -> _Figure | None:
    """What a column of a language model is, by its name; None for any other."""
    name = _plain(column)
    if name in _NAMES:
        return _NAMES[name]
    if (match := _RATE.fullmatch(name)) and (match["of"] or "") in _RATES:
        return _Figure(_RATES[match["of"] or ""])
    if match := _TEST_RATE.fullmatch(name):
        tokens, phase = _PHASES[match["test"]]
        return _Figure(f"{phase}_tokens_per_s", tokens=(tokens, float(match["n"])))
    if match := _PER_TOKEN.fullmatch(name):
        return _Figure("token_s", 1e-3 if match["unit"] == "ms" else 1.0)
    if match := _TIME.fullmatch(name):
        spread = match["before"] or match["after"]
        middle = "" if spread in {None, "median"} else f"_{spread}"
        factor = 1e-3 if match["unit"] == "ms" else 1.0
        return _Figure(f"{_TIMES[match['of']]}{middle}_s", factor)
    return None


def with_language_figures(table: TextTable, said: Mapping[str, str]) -> TextTable:
    """``table`` with its columns of tokens as figures of its rows; ``said``: columns named apart.

    The tokens of a row are part of its network's name, as of llama-bench: ``qwen 512in/128out``.
    Raises InputError for a cell that is no number above 0.
    """
    taken = set(said.values())
    columns = {
        name: figure
        for name in table.columns
        if name not in taken and (figure := figure_of(name)) is not None
    }
    if not any(
        figure.name.endswith(_SPEAKS) or "first_token" in figure.name for figure in columns.values()
    ):
        return table
    network = next((n for n in table.columns if _plain(n) in {"network", "model"}), None)
    network = said.get("network") or network
    renamed = {} if "precision" in said else _renamed(table, taken)
    test = next((n for n in table.columns if _plain(n) == "test"), None)
    rows = [
        _row(table, _with_format(row, network, renamed), columns, network, test)
        for row in table.rows
    ]
    read = {*columns}
    has_rate = any(figure.name == "tokens_per_s" for figure in columns.values())
    if test is not None and test not in taken and has_rate:
        read |= {test} if all(_TEST.fullmatch(row.cells[test]) for row in table.rows) else set()
    return replace(
        table,
        columns=tuple(renamed.get(name, name) for name in table.columns if name not in read),
        rows=tuple(
            replace(
                row,
                cells={renamed.get(n, n): text for n, text in row.cells.items() if n not in read},
            )
            for row in rows
        ),
    )


def _renamed(table: TextTable, taken: set[str]) -> dict[str, str]:
    """The column of a quantisation, by the name of a precision."""
    has_precision = any(_plain(name) in {"precision", "dtype"} for name in table.columns)
    names = [n for n in table.columns if _plain(n) in _PRECISIONS and n not in taken]
    return {} if has_precision or len(names) != 1 else {names[0]: "precision"}


def _with_format(row: TextRow, network: str | None, renamed: Mapping[str, str]) -> TextRow:
    """``row``, where a quantisation that is no format ("f16_fa") is part of the network's name."""
    for column in renamed:
        text = row.cells[column]
        is_format = parse_precision_name(text) is not None or stored_weights(text) is not None
        if network in row.cells and text.casefold() not in EMPTY and not is_format:
            named = {network: f"{row.cells[network]} {text}", column: ""}
            return replace(row, cells={**row.cells, **named})
    return row


def _row(
    table: TextTable,
    row: TextRow,
    columns: Mapping[str, _Figure],
    network: str | None,
    test: str | None,
) -> TextRow:
    figures, cells = dict(_figures(table, row, columns)), dict(row.cells)
    match = None if test is None else _TEST.fullmatch(cells[test])
    if match is not None and (rate := figures.get("tokens_per_s")) is not None:
        tokens, phase = _PHASES[match[1]]
        figures |= {tokens: float(match[2]), f"{phase}_tokens_per_s": rate}
    if network in cells and (workload := _workload(figures)):
        cells[network] = f"{cells[network]} {workload}"
    return replace(row, cells=cells, figures={**row.figures, **figures})


def _figures(
    table: TextTable, row: TextRow, columns: Mapping[str, _Figure]
) -> Iterator[tuple[str, float]]:
    for column, figure in columns.items():
        text = row.cells[column].strip()
        if figure.name == "depth_tokens" and re.fullmatch(r"0(?:\.0*)?", text):
            yield figure.name, 0.0
            continue
        if text.casefold() in EMPTY:
            continue
        where = f"{table.where}, line {row.line}"
        value = parse_positive(text, table.separator, where, column)
        if value is not None:
            yield figure.name, 1 / value if figure.is_inverse else value * figure.factor
            if figure.tokens is not None:
                yield figure.tokens


def _workload(figures: Mapping[str, float]) -> str:
    prompt, generated = figures.get("prompt_tokens"), figures.get("generated_tokens")
    parts = [f"{n:.0f}{what}" for n, what in ((prompt, "in"), (generated, "out")) if n]
    words = ["/".join(parts)] if parts else []
    if depth := figures.get("depth_tokens"):
        words.append(f"@ d{depth:.0f}")
    return " ".join(words)
