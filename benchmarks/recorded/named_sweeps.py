"""Networks that others measured in NVIDIA's named power modes, with the caps of each mode.

From ../shared/data/power_modes and llm (SOURCES.md there has commits and licences). No prior was
chosen on these recordings before they were first predicted; docs/results/held_back.md has those
first figures. Clocks, cores and SMs are those of ``core.hardware.named_modes``. Two cells of the
segmentation networks contain a transient of the mode switch; their settled values take its place.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mansard.core.hardware.named_modes import boards_called
from recorded.cpu_cores import read_cpu_sweep
from recorded.mode_sweeps import Sweep, make_sweep

_FOLDER = "power_modes"
_XAVIER, _ORIN, _NANO = "Jetson AGX Xavier", "AGX Orin 64GB", "Orin Nano Super"
# Network and mode: seconds and joules once the mode had settled.
_SETTLED = (
    ("fcn_resnet50", "MODE_30W_ALL", 0.2420, 4.47),
    ("lraspp_mobilenet_v3_large", "MAXN", 0.0137, 0.33),
)


def read_named_sweeps(data: Path) -> tuple[Sweep, ...]:
    """All of them; ``data``: the folder of recorded data."""
    folder = data / _FOLDER
    return (
        _segmentation(folder),
        _catalog(folder),
        _encoder(folder),
        _compressor(folder),
        _mobilenet(folder),
        _llama_cpp(data / "llm"),
        _products(folder),
        read_cpu_sweep(data),
    )


def _with_caps(rows: pl.DataFrame, board: str) -> pl.DataFrame:
    """``rows`` with the settings of their modes."""
    known = boards_called(board)[0]
    names = rows["mode"].unique(maintain_order=True).to_list()
    modes = {name: known.find(name) for name in names}
    caps = pl.DataFrame(
        [
            {
                "mode": name,
                "gpu_hz": mode.gpu_hz,
                "memory_hz": mode.memory_hz,
                "cpu_hz": mode.cpu_hz,
                "n_cpus": mode.n_cpus,
                "n_sms": mode.n_sms,
            }
            for name, mode in modes.items()
            if mode is not None
        ]
    )
    return rows.join(caps, on="mode", maintain_order="left")


def _segmentation(folder: Path) -> Sweep:
    """Six torchvision networks in eager PyTorch on an AGX Xavier, four modes, default governor."""
    settled = pl.DataFrame(
        _SETTLED, schema=["model", "mode", "settled_s", "settled_j"], orient="row"
    )
    rows = (
        pl.read_csv(folder / "uav-seg-zoo__agx_xavier32_r35_torch21_fp32_b1.csv")
        .filter(pl.col("height") == 384)
        .join(settled, on=["model", "mode"], how="left")
        .select(
            "mode",
            network="model",
            latency_s=pl.coalesce("settled_s", pl.col("latency_ms") / 1e3),
            energy_j=pl.coalesce("settled_j", "e_total_j"),
        )
        .with_columns(power_w=pl.col("energy_j") / pl.col("latency_s"))
    )
    return _sweep("AGX Xavier, eager PyTorch", _XAVIER, rows, is_pinned=False)


def _catalog(folder: Path) -> Sweep:
    """Further networks of that board in fp32 and fp16, of which all four modes were recorded."""
    rows = (
        pl.read_csv(folder / "uav-seg-zoo__agx_xavier32_catalog_by_mode.csv")
        .filter(pl.col("mode").n_unique().over("workload") == 4)
        .select(
            "mode",
            network="workload",
            latency_s=pl.col("latency_ms") / 1e3,
            power_w=pl.col("e_total_j") / (pl.col("latency_ms") / 1e3),
        )
    )
    return _sweep("AGX Xavier, catalog", _XAVIER, rows, is_pinned=False)


_SAR = "CedricLeon+SAR_DDC_FPGA__agx_orin64_power_sweep_b1_fp32.csv"


def _encoder(folder: Path) -> Sweep:
    """The part of four image compressors that runs on the GPU, clocks pinned, without power."""
    rows = pl.read_csv(folder / _SAR).select(
        "mode",
        network=pl.format("{} encoder", "arch"),
        latency_s=pl.col("g_a_ms") / 1e3,
        power_w=pl.lit(None, pl.Float64),
    )
    return _sweep("AGX Orin 64GB, SAR encoder", _ORIN, rows, is_pinned=True)


def _compressor(folder: Path) -> Sweep:
    """The same with the entropy coder, which runs on the CPU, and the board's power."""
    rows = pl.read_csv(folder / _SAR).select(
        "mode",
        network="arch",
        latency_s=pl.col("latency_ms") / 1e3,
        power_w="total_w",
    )
    return _sweep("AGX Orin 64GB, SAR compressor", _ORIN, rows, is_pinned=True)


def _mobilenet(folder: Path) -> Sweep:
    """MobileNetV2 by TensorRT in fp16 and int8, clocks not pinned, power of VDD_IN."""
    rows = pl.read_csv(folder / "mobilenetv2_orin_nano__trt_by_mode.csv").select(
        "mode",
        network=pl.format("mobilenet_v2 {}", "precision"),
        latency_s=1 / pl.col("qps"),
        power_w="vdd_in_w",
    )
    return _sweep("Orin Nano Super, MobileNetV2", _NANO, rows, is_pinned=False)


def _llama_cpp(folder: Path) -> Sweep:
    """Three language models by llama.cpp: a token of 512 that are read, and one that is written."""
    rows = pl.read_csv(folder / "picocluster_orin_nano__llamacpp_by_mode.csv").select(
        "mode",
        network=pl.format("{} {}", "model", "test"),
        latency_s=1 / pl.col("tokens_per_s"),
        power_w=pl.lit(None, pl.Float64),
    )
    return _sweep("Orin Nano Super, llama.cpp", _NANO, rows, is_pinned=False)


_PRODUCT = "Cre4T3Tiv3+jetson-orin-matmul-analysis__data__raw__power_modes__"
_PRODUCT_RUN = "_3mode_analysis_20251009_202636.csv"


def _products(folder: Path) -> Sweep:
    """Matrix products of 512 and 1024 by four CUDA kernels; their power was counted twice."""
    parts = [
        pl.read_csv(folder / f"{_PRODUCT}{name}{_PRODUCT_RUN}")
        .filter(pl.col("matrix_size") >= 512)
        .select(
            mode="power_mode_name",
            network=pl.format("{} {}", pl.lit(name), "matrix_size"),
            latency_s=pl.col("elapsed_ms") / 1e3,
            power_w=pl.lit(None, pl.Float64),
        )
        for name in ("naive", "blocked", "cublas", "tensor_core")
    ]
    return _sweep("Orin Nano Super, matrix products", _NANO, pl.concat(parts), is_pinned=False)


def _sweep(name: str, board: str, rows: pl.DataFrame, *, is_pinned: bool) -> Sweep:
    return make_sweep(name, board, _with_caps(rows, board), is_pinned=is_pinned)
