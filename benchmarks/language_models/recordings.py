"""Recordings of language models on Jetsons by others, as stages of models that are known by name.

Files lie in ``../shared/data`` (SOURCES.md says whose they are). A format that has no name here is
left out: the 8 and 4 bits of bitsandbytes, SmoothQuant, one bit of Bonsai.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
ORIN_32 = "Jetson AGX Orin developer kit"  # 32 GB: 204.8 GB/s; its peaks are no lower
ORIN_64 = "Jetson AGX Orin 64GB"
NANO = "Jetson Orin Nano 8GB Super"
THOR = "Jetson Thor T5000"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One stage of a model on an engine in a mode: seconds of a step or a prompt, and watts.

    ``author``: whose board and meter it is. Powers are of the rails that the author sums.
    """

    author: str
    board: str
    mode: str
    engine: str
    model: str
    stage: str  # as in ``estimator.decoding.stage_name``: "decode 576"
    time_s: float
    power_w: float | None = None
    batch: int = 1

    @property
    def is_decode(self) -> bool:
        return self.stage.startswith("decode")


def recordings() -> list[Recorded]:
    """All of them; empty without ``../shared``."""
    readers = (_iiswc_orin, _iiswc_thor, _smolhub, _picocluster, _maxperf, _mlperf, _thor_qwen)
    return [row for reader in readers for row in reader()]


def _rows(path: str) -> list[dict[str, str]]:
    with (DATA / path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


_IISWC = "power_modes/kevinhe5+IISWC2026__chat__"
_MODELS = {
    "Llama-3.2-1B": "llama-3.2-1b",
    "Llama-3.1-8B": "llama-3.1-8b",
    "Mixtral-8x7B": "mixtral-8x7b",
}
_FORMATS = {"f16": "F16", "fp16": "F16", "bf16": "BF16", "int4": "AWQ", "int4_awq": "AWQ"} | {
    "fp8": "FP8",
    "nvfp4": "NVFP4",
}


def _format(name: str) -> str | None:
    plain = name.removeprefix("gguf_")
    return _FORMATS.get(plain) or (plain if plain[0] == "Q" and "gpu" not in plain else None)


def _iiswc_orin() -> Iterator[Recorded]:
    """Locked clocks; the median of the repeats of each prompt and answer."""
    cells: dict[tuple[str, str, int, int], list[dict[str, str]]] = {}
    for row in _rows(f"{_IISWC}sweep_locked.csv"):
        form = _format(row["quantization"])
        if form is not None:
            model = f"{_MODELS[row['model']]}:{form}"
            key = (row["framework"], model, int(row["prompt_tokens"]), int(row["gen_tokens"]))
            cells.setdefault(key, []).append(row)
    for (engine, model, prompt, answer), rows in cells.items():
        shared = partial(
            Recorded, author="IISWC Orin", board=ORIN_32, mode="MAXN", engine=engine, model=model
        )
        yield shared(stage=f"decode {prompt + answer // 2}",
            time_s=median(float(row["tpot_ms"]) for row in rows) / 1e3,
            power_w=_watts(rows, "dec_total_mw"),
        )  # fmt: skip
        # vLLM answers repeated prompts from its prefix cache.
        if engine != "vllm" and answer == 128:
            yield shared(stage=f"prefill {prompt}",
                time_s=median(float(row["ttft_ms"]) for row in rows) / 1e3,
            )  # fmt: skip


def _watts(rows: list[dict[str, str]], column: str) -> float | None:
    values = [float(row[column]) for row in rows if row[column]]
    return median(values) / 1e3 if values else None


def _iiswc_thor() -> Iterator[Recorded]:
    for row in _rows(f"{_IISWC}pareto_thor__pareto_thor_base.csv"):
        form = _format(row["quant"].removesuffix("_eager"))
        if form is not None:
            yield Recorded(
                author="IISWC Thor", board=THOR, mode="MAXN", engine=row["framework"],
                model=f"llama-3.2-1b:{form}", stage="decode 256",
                time_s=float(row["tpot_ms"]) / 1e3, power_w=float(row["pdecode_w"]),
            )  # fmt: skip


_SMOLHUB = {
    "SmolLM2-360M": "smollm2-360m:Q8_0",
    "Qwen3-0.6B": "qwen3-0.6b:Q8_0",
    "Llama3.2-1B": "llama-3.2-1b:Q4_K_M",
}


def _smolhub() -> Iterator[Recorded]:
    """2048 tokens and 256; powers of VDD_CPU_GPU_CV alone; formats by the author's page."""
    for row in _rows("power_modes/YuvrajSingh-mist+SmolHub__orin_nano_super_llm_4_networks.csv"):
        if row["network"] in _SMOLHUB:
            shared = partial(
                Recorded,
                author="SmolHub",
                board=NANO,
                engine="llama.cpp",
                mode=row["mode"].replace("MAXN", "MAXN_SUPER"),
                model=_SMOLHUB[row["network"]],
            )
            power_w = float(row["power_w"])
            decode_s, prefill_s = (
                float(row[name]) / 1e3 for name in ("decode_ms_per_token", "prefill_ms")
            )
            yield shared(stage="decode 2176", time_s=decode_s, power_w=power_w)
            yield shared(stage="prefill 2048", time_s=prefill_s)


_PICO = {"TinyLlama 1.1B": "tinyllama-1.1b", "Llama 3.2 3B": "llama-3.2-3b"} | {
    "Phi-3 3.8B": "phi-3-mini"
}


def _picocluster() -> Iterator[Recorded]:
    for row in _rows("llm/picocluster_orin_nano__llamacpp_by_mode.csv"):
        n_tokens, rate = int(row["test"][2:]), float(row["tokens_per_s"])
        is_decode = row["test"].startswith("tg")
        yield Recorded(
            author="picocluster", board=NANO, engine="llama.cpp",
            mode=row["mode"].replace("MAXN", "MAXN_SUPER"),
            model=f"{_PICO[row['model']]}:Q4_K_M",
            stage=f"decode {n_tokens // 2}" if is_decode else f"prefill {n_tokens}",
            time_s=(1 if is_decode else n_tokens) / rate,
        )  # fmt: skip


_MAXPERF = {"q4km": "Q4_K_M", "iq4xs": "IQ4_XS", "lcq4km": "Q4_K_M", "lciq4xs": "IQ4_XS"}


def _maxperf() -> Iterator[Recorded]:
    """The 41 metered runs: a prompt of 52 or 15,718 tokens, then 190 to 257."""
    runs: dict[tuple[str, str], list[tuple[float, float, int, int, float]]] = {}
    for path in sorted((DATA / "llm/jbecirovski+jetson-llm-maxperf").glob("*__energy.json")):
        name = re.search(r"energy-(maxn|mode30w)-(\w+)-\d+__", path.name)
        if name is None or name[2] not in _MAXPERF:
            continue
        log = path.with_name(path.name.replace("energy.json", "stderr.log")).read_text()
        encoded = re.search(r"encoded +(\d+) tokens in +([\d.]+)", log)
        said = json.loads(path.read_text())
        if encoded is not None:
            runs.setdefault((name[1], name[2]), []).append((
                said["decode_s"] / said["decoded_tokens"],
                said["energy_decode_j"] / said["decode_s"],
                int(encoded[1]), int(said["decoded_tokens"]), float(encoded[2]),
            ))  # fmt: skip
    for (mode, variant), rows in runs.items():
        decode_s, power_w, prompt, answer, prefill_s = (median(c) for c in zip(*rows, strict=True))
        shared = partial(
            Recorded,
            author="maxperf",
            board=ORIN_64,
            engine="llama.cpp",
            mode={"maxn": "MAXN", "mode30w": "30W"}[mode],
            model=f"llama-3.1-8b:{_MAXPERF[variant]}",
        )
        context = int(prompt) + int(answer) // 2
        yield shared(stage=f"decode {context}", time_s=decode_s, power_w=power_w)
        if prompt > 500:
            yield shared(stage=f"prefill {int(prompt)}", time_s=prefill_s)


def _mlperf() -> Iterator[Recorded]:
    """MLPerf 5.1, Llama-3.1-8B in fp4 on CNN/DailyMail: prompts of 778 tokens in the mean."""
    yield Recorded(
        author="MLPerf", board=THOR, mode="MAXN", engine="tensorrt", model="llama-3.1-8b:NVFP4",
        stage="decode 842", time_s=21.29e-3,
    )  # fmt: skip


def _thor_qwen() -> Iterator[Recorded]:
    """vLLM with clocks as its author had them; 2048 tokens and 128, one request at a time."""
    path = "power_modes/wang-junjian__thor_qwen3-8b-fp8_vllm_by_power_mode.csv"
    for row in _rows(path):
        if row["load"] == "low" and row["power_mode"] == "MAXN" and row["jetson_clocks"] == "1":
            yield Recorded(
                author="wang-junjian", board=THOR, mode="MAXN", engine="vllm",
                model="qwen3-8b:FP8", stage="decode 2112", time_s=float(row["tpot_ms"]) / 1e3,
            )  # fmt: skip
