"""A server of a language model, measured in each mode."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from mansard.analytics.data.scores import keep_scores
from mansard.analytics.models.predict.generation_times import GenerationTimes
from mansard.analytics.models.scaling.generations import decode_stage
from mansard.api.result import Result
from mansard.api.rows import times_of_generations
from mansard.api.scores import score_batches
from mansard.core.errors import MansardError
from mansard.core.precision import parse_precision
from mansard.core.records import GenerationRun, Manifest, ModelScore
from mansard.estimator import Settings
from mansard.estimator.decoding import Stage, stage_name
from mansard.estimator.scoring import is_language_model
from mansard.inference.servers.trial import GENERATIONS
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.rows import rows_of
from mansard.sweeps.servers import ServerRequest, sweep_server


class MeasuredGeneration(msgspec.Struct, frozen=True):
    """One row; ``manifest`` says in which mode, and on which machine."""

    manifest: Manifest
    run: GenerationRun
    times: GenerationTimes


class ServerResult(Result, frozen=True):
    """A server in the modes asked for, measured now or before, and what could not be measured."""

    measured: tuple[MeasuredGeneration, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one."""
        if self.failure is not None:
            raise self.failure


def _scores(
    request: ServerRequest, rows: Sequence[tuple[Manifest, GenerationRun]], reporter: Reporter
) -> list[ModelScore]:
    """What the measured stages need, where the model is known: predictions are calibrated by them.

    The model is the GGUF file that the command names, else the one that the server is called by.
    """
    cases: dict[tuple[str, Stage, int, bool], None] = {}
    for manifest, row in rows:
        stages = Stage(row.prompt_tokens, 0), decode_stage(row.prompt_tokens, row.generate_tokens)
        is_cpu = manifest.machine.kind == "cpu"
        cases |= {(row.workload, stage, row.concurrency, is_cpu): None for stage in stages}
    scores = []
    for workload, stage, n_requests, is_cpu in cases:
        source = _model_of(request, workload)
        if source is None:
            continue
        # llama.cpp multiplies in fp32 on a CPU, whatever it unpacks.
        settings = Settings(precision=parse_precision("fp32") if is_cpu else None)
        try:
            scored = score_batches(source, (n_requests,), settings, SILENT, stage)
        except MansardError as error:
            reporter.note(f"note: no prediction can be calibrated by it: {error}")
            break
        scores += [replace(score, model=stage_name(workload, stage)) for score in scored]
    return scores


def _model_of(request: ServerRequest, workload: str) -> Path | str | None:
    """The file or name of the model; None where nothing tells."""
    # A file of a host is not here, even where one of that name is.
    words = shlex.split(request.start) if request.start and not request.hosts else []
    files = [Path(word) for word in words if word.lower().endswith(".gguf")]
    if files and files[0].is_file():
        return files[0]
    return workload if is_language_model(workload) else None


def measure_server(request: ServerRequest, reporter: Reporter = SILENT) -> ServerResult:
    """Measure a server in each mode: every prompt, answer and concurrency of the request.

    What was measured before is not measured again, unless asked for. Raises MeasurementError where
    a request fails: what was measured before is kept, and the board is put back; UsageError, and
    what keeps a board from being measured.
    """
    swept = sweep_server(request, reporter)
    rows = rows_of(request.runs, swept.run_ids, GENERATIONS)
    keep_scores(request.runs, _scores(request, rows, reporter))
    measured = (
        MeasuredGeneration(manifest, row, times)
        for (manifest, row), times in zip(rows, times_of_generations(rows), strict=True)
    )
    return ServerResult(tuple(measured), swept.failure)
