"""The plan of measuring a server: lengths of prompts and answers, concurrencies, what it is."""

from __future__ import annotations

import random
import shlex
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import Schema
from mansard.core.text import is_utf8, masked_words, printable
from mansard.inference.programs.plan import hash_program, is_known
from mansard.inference.servers.connection import Address
from mansard.inference.servers.process import PORT
from mansard.measuring.identity import read_environment
from mansard.measuring.plan import PlannedTrial, RunPlan

MOST_TOKENS = 10_000_000  # of a prompt, or of an answer
MOST_CONCURRENCY = 1024
_LONGEST_NAME = 60
_SPARE_TOKENS = 256


class GenerationTrial(PlannedTrial, frozen=True, kw_only=True):
    """One length of prompt and answer, and one concurrency; the fields are of ``GenerationRun``.

    The server, its version and model are known where the server runs before anything is
    planned; one that is started is identified by its command and the files that this names.
    """

    workload: str
    asked_model: str | None
    known_server: str | None
    known_version: str | None
    address: str | None
    command: tuple[str, ...] | None
    server_hash: str | None
    environment: dict[str, str]
    prompt_tokens: int
    generate_tokens: int
    concurrency: int

    @property
    def title(self) -> str:
        """What is shown while it is measured."""
        at_once = f", {self.concurrency} at once" if self.concurrency > 1 else ""
        return f"{self.prompt_tokens} + {self.generate_tokens} tokens{at_once}"


class GenerationPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of one server.

    Its protocol is that of programs: ``n_blocks_min`` is the least number of rounds that count.
    """

    schema: ClassVar[Schema] = Schema("generation-plan", 1)
    kind: ClassVar[str] = "mansard.inference.servers.trial:GENERATIONS"

    trials: tuple[GenerationTrial, ...]
    depends: tuple[str, ...] = ()  # files and folders that are part of ``server_hash``


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """Which server is measured, with its secrets; not part of a plan.

    ``command``: words that start it, with ``{port}``; ``folder``: in which; ``address``: where it
    listens, None: on a free port; ``server``, ``server_version``: where they are known.
    """

    command: tuple[str, ...] = ()
    folder: str = "."
    address: Address | None = None
    model: str | None = None
    server: str | None = None
    server_version: str | None = None
    name: str | None = None  # what the model is called in tables
    variables: tuple[str, ...] = ()  # of the environment: part of what the command is
    depends: tuple[Path, ...] = ()  # files and folders: likewise
    context_tokens: int = 0  # of the longest prompt and answer; 0: as the server has it


class Lengths(msgspec.Struct, frozen=True):
    """Tokens of prompts and of answers, and requests at once: every combination is measured."""

    prompts: tuple[int, ...]
    generates: tuple[int, ...]
    concurrencies: tuple[int, ...]

    @property
    def context_tokens(self) -> int:
        """Room for the longest prompt and answer, and for what a template adds."""
        n_tokens = max(self.prompts) + max(self.generates) + _SPARE_TOKENS
        return -(-n_tokens // _SPARE_TOKENS) * _SPARE_TOKENS


def parse_start(text: str, address: Address | None) -> tuple[str, ...]:
    """The words of ``--start``; raises UsageError."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--start {text!r}: {error}", fix="close the quote") from error
    if not words or not is_utf8(text) or "\0" in text:
        raise UsageError("--start names no command", fix="--start 'llama-server -m a.gguf …'")
    if address is None and PORT not in text:
        raise UsageError(
            f"--start has no {PORT}, so nothing says where its server listens",
            fix=f"let the command have it (llama-server --port {PORT}), or name --server",
        )
    return words


def plan_trials(serving: Serving, lengths: Lengths) -> tuple[GenerationTrial, ...]:
    """A trial for each combination, the shortest first; raises UsageError."""
    environment = read_environment(serving.variables, is_known) if serving.command else {}
    shown = masked_words(serving.command) or None
    values: dict[str, Any] = {
        "workload": printable(serving.name or _name(serving)),
        "asked_model": serving.model,
        "known_server": serving.server,
        "known_version": serving.server_version,
        "address": None if serving.address is None else serving.address.shown,
        "command": shown,
        "server_hash": (
            hash_program(serving.command, environment, serving.depends) if serving.command else None
        ),
    }
    return tuple(
        GenerationTrial(
            **values,
            environment=environment,
            prompt_tokens=prompt,
            generate_tokens=generate,
            concurrency=concurrency,
            unknown={name: _REASONS[name] for name, value in values.items() if value is None},
        )
        for concurrency, prompt, generate in product(
            sorted(set(lengths.concurrencies)),
            sorted(set(lengths.prompts)),
            sorted(set(lengths.generates)),
        )
    )


_STARTED = "it is started in each mode"
_REASONS = {
    "asked_model": "none was named: the only one of the server",
    "known_server": _STARTED,
    "known_version": "it is started in each mode, or does not say",
    "address": "a free port is taken",
    "command": "it was not started by Mansard",
    "server_hash": "it was not started by Mansard",
}


def new_seed() -> int:
    """A seed for prompts that a server has not seen before."""
    return random.SystemRandom().getrandbits(48)


def _name(serving: Serving) -> str:
    """The model, else the model file of the command, else the command."""
    words = [word.rpartition("=")[2] for word in masked_words(serving.command)]
    if serving.model is not None:
        words = [serving.model]
    files = [Path(word).stem for word in words if word.endswith((".gguf", ".ggml"))]
    if files:
        return files[0][:_LONGEST_NAME]
    if serving.model is not None or not words:
        return serving.model or "model"
    return shlex.join([Path(words[0]).name, *words[1:]])[:_LONGEST_NAME]


def check_lengths(lengths: Lengths) -> None:
    """Raises UsageError for lengths that cannot be."""
    for name, values, least, most in (
        ("--prompt", lengths.prompts, 1, MOST_TOKENS),
        ("--generate", lengths.generates, 1, MOST_TOKENS),
        ("--concurrency", lengths.concurrencies, 1, MOST_CONCURRENCY),
    ):
        if not values or not all(least <= value <= most for value in values):
            raise UsageError(f"{name} is from {least} to {most}", fix=f"{name} 128")


def parse_counts(name: str, text: str) -> tuple[int, ...]:
    """Numbers that commas separate, such as ``128,512``; raises UsageError."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError as error:
        raise UsageError(
            f"{name} {text!r} is not a list of numbers", fix=f"{name} 1,4,8"
        ) from error
