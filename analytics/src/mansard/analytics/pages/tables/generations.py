"""The table of servers of language models, for a page and a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import UNKNOWN, capacity, digits, joules, seconds, watts
from mansard.analytics.models.predict.generation_times import GenerationTimes
from mansard.analytics.pages.figures.tables import Column, device_columns, tabulate
from mansard.core.table import Table

TITLE = "Servers of language models that were measured"


def generation_table(rows: Sequence[GenerationTimes]) -> Table:
    """Times, rates and energies of both phases, beside the server's own timings."""
    columns = (
        *device_columns(rows),
        Column("Model", lambda row: row.model),
        Column("Server", lambda row: row.server),
        Column("Mode", lambda row: display_name(row.mode)),
        Column("Label", lambda row: row.label),
        Column("Prompt", lambda row: str(row.prompt_tokens), is_numeric=True),
        Column("Answer", lambda row: str(row.generate_tokens), is_numeric=True),
        Column("At once", lambda row: str(row.concurrency), is_numeric=True),
        Column("First token", first_token, is_numeric=True),
        Column("99 %", lambda row: seconds(row.first_token_p99_s), is_numeric=True),
        Column("Server's own", lambda row: seconds(row.server_prompt_s), is_numeric=True),
        Column("Token", token, is_numeric=True),
        Column("99 % of gaps", lambda row: seconds(row.gap_p99_s), is_numeric=True),
        Column("Server's own token", lambda row: seconds(row.server_token_s), is_numeric=True),
        Column("Prefill tokens/s", lambda row: _rate(row.prefill_tokens_per_s), is_numeric=True),
        Column("Decode tokens/s", lambda row: _rate(row.decode_tokens_per_s), is_numeric=True),
        Column("Output tokens/s", lambda row: _rate(row.output_tokens_per_s), is_numeric=True),
        Column("Prefill J/token", prefill_energy, is_numeric=True),
        Column("Decode J/token", decode_energy, is_numeric=True),
        Column("Output J/token", output_energy, is_numeric=True),
        Column("Prefill power", lambda row: watts(row.prefill_w), is_numeric=True),
        Column("Decode power", lambda row: watts(row.decode_w), is_numeric=True),
        Column("Power", lambda row: watts(row.output_w), is_numeric=True),
        Column(
            "Memory",
            lambda row: UNKNOWN if row.memory_bytes is None else capacity(row.memory_bytes),
            is_numeric=True,
        ),
        Column("Requests", lambda row: str(row.n_requests), is_numeric=True),
        Column("Source", lambda row: row.source),
        Column("Remark", lambda row: row.remark),
    )
    return tabulate(TITLE, columns, rows)


def first_token(row: GenerationTimes) -> str:
    """The median time to the first token."""
    return seconds(row.first_token_s, row.first_token_low_s, row.first_token_high_s)


def token(row: GenerationTimes) -> str:
    """The median time of a token after the first."""
    return seconds(row.token_s, row.token_low_s, row.token_high_s)


def prefill_energy(row: GenerationTimes) -> str:
    """The energy of a token of a prompt."""
    return joules(row.prefill_token_j, row.prefill_token_low_j, row.prefill_token_high_j)


def decode_energy(row: GenerationTimes) -> str:
    """The energy of a token of an answer."""
    return joules(row.decode_token_j, row.decode_token_low_j, row.decode_token_high_j)


def output_energy(row: GenerationTimes) -> str:
    """The energy of a whole round, by token of its answers."""
    return joules(row.output_token_j, row.output_token_low_j, row.output_token_high_j)


def _rate(tokens_per_s: float | None) -> str:
    return UNKNOWN if tokens_per_s is None else digits(tokens_per_s)
