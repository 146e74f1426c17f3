"""The reader's own files that pages speak of, made for the tests that run those pages."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

_RATES = """\
mode,gpu_mhz,emc_mhz,sms,precision,unit,GFLOP/s,GB/s,launch_us
MAXN,1300.5,3199,16,fp32,cuda,5000,189.46,14.4
30W,612,3199,8,fp32,cuda,1200,150,20
15W,408,2133,6,fp32,cuda,600,81.2,28.7
MAXN,1300.5,3199,16,fp16,tensor,5325.7,,
30W,612,3199,8,fp16,tensor,2600,,
15W,408,2133,6,fp16,tensor,1300,,
MAXN,1300.5,3199,16,int8,tensor,10000,,
30W,612,3199,8,int8,tensor,5000,,
15W,408,2133,6,int8,tensor,2500,,
"""
_TIMES = """\
mode,network,precision,batch,time_ms,power_w
MAXN,NETWORK,fp16,1,2.1,38
30W,NETWORK,fp16,1,4.4,19
15W,NETWORK,fp16,1,9.6,11
"""


def make_given(name: str, path: Path) -> None:
    """Make the file or folder ``name`` at ``path``; raises KeyError for a name without a maker."""
    MAKERS[name](path)


def _network(path: Path) -> None:
    from mansard.estimator import zoo

    zoo.write("squeezenet1_1", path.parent).rename(path)


def _resnet(path: Path) -> None:
    from mansard.estimator import zoo

    zoo.write("resnet50", path.parent)


def _text_model(path: Path) -> None:
    from mansard.estimator import zoo

    zoo.write("bert_base", path.parent).rename(path)


def _classifier(path: Path) -> None:
    """A network with weights, or the data of which it knows most."""
    from tests.cli.test_cli_accuracy import blobs

    scratch = path.parent / "scratch"
    scratch.mkdir()
    network, data, _ = blobs(scratch)
    (network if path.suffix == ".onnx" else data).rename(path)
    shutil.rmtree(scratch)


def _networks(path: Path) -> None:
    from mansard.estimator import zoo

    path.mkdir()
    for name in ("alexnet", "squeezenet1_1"):
        zoo.write(name, path)


def _frames(path: Path) -> None:
    rows = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)
    np.savez(path, image=rows)


def _cifar(path: Path) -> None:
    """A file like CIFAR's, a network that knows its classes, its outputs, or a server's answers."""
    from tests.inference.cifar_files import Cifar

    scratch = path.parent / "scratch"
    scratch.mkdir()
    cifar = Cifar(scratch, 200)
    if path.suffix == ".npz":
        np.savez(path, probabilities=cifar.probabilities("small"))
    elif path.suffix == ".txt":
        path.write_text("".join(f"{label}\n" for label in cifar.labels), "ascii")
    else:
        (cifar.data if path.suffix == ".bin" else cifar.small).rename(path)
    shutil.rmtree(scratch)


def _samples(path: Path) -> None:
    from tests.analytics.hierarchical_samples import made_up, write_npz

    write_npz(path, made_up(2000))


def _text(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(text, "utf-8")

    return write


def _log(path: Path) -> None:
    from tests.device.tegrastats_lines import LINES

    text = f"{LINES['TX2 r32']}\n" * 3
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def _orin(path: Path) -> None:
    """Runs that hold tables of an Orin: its rates in three modes, and times of some networks."""
    _import(path, _RATES, "rates")
    for network in ("resnet50", "mobilenet_v2"):
        _import(path, _TIMES.replace("NETWORK", network), network)


def _import(runs: Path, table: str, name: str) -> None:
    from mansard import api

    file = runs.parent / f"{name}.csv"
    file.write_text(table, "utf-8")
    origin = api.TableOrigin(citation=f"made up, {name}", module="agx-orin")
    api.import_tables([file], origin, runs=runs)
    file.unlink()


def _haxconn(path: Path) -> None:
    from tests.api.test_haxconn_files import ENGINES, LAYERS, MARKS, written

    written(path, layer_results=LAYERS, dla_compute_times=ENGINES, transition_results=MARKS)


def _cores(path: Path) -> None:
    from tests.analytics.factory import write_two_modes

    write_two_modes(path)


def _nvpmodel(path: Path) -> None:
    from mansard.simulator import create_board

    board = create_board("agx-orin", path.parent / "scratch")
    shutil.copy(board / "etc/nvpmodel.conf", path)
    shutil.rmtree(path.parent / "scratch")


_MODES = "mode,gpu_mhz,emc_mhz\n" + "".join(
    f"new{gpu}-{emc},{gpu},{emc}\n" for gpu in (306, 612, 918, 1300.5) for emc in (2133, 3199)
)
_OBSERVED = "network,precision,batch,observed_time\nresnet50,fp16,1,2.1\n"
_PROBLEM = """
[[accelerator]]
name = "gpu"
kind = "gpu"
[[accelerator]]
name = "dla"
kind = "dla"
[[network]]
model = "detector"
group = [{time = {gpu = "2ms", dla = "3ms"}}]
[[network]]
model = "classifier"
group = [{time = {gpu = "2ms", dla = "4ms"}}]
"""
# As trtexec writes them: one query, one layer.
_TRT_TIMES = '[ { "startEnqMs" : 1, "h2dMs" : 0, "computeMs" : 2, "d2hMs" : 0, "latencyMs" : 2 } ]'
_TRT_PROFILE = (
    '[ { "count" : 9 }\n, { "name" : "Conv_0 + Relu_1", "averageMs" : 2, "percentage" : 100 } ]'
)
# AlexNet's first layers as an engine of TensorRT describes and times them; the times are made up.
_FIRST = "Reformatting CopyNode for Input Tensor 0 to Conv_0 + Relu_1"
_ENGINE_PROFILE = f"""[
  {{ "count" : 100 }}
, {{ "name" : "{_FIRST}", "averageMs" : 0.02, "medianMs" : 0.02, "percentage" : 8 }}
, {{ "name" : "Conv_0 + Relu_1", "averageMs" : 0.18, "medianMs" : 0.18, "percentage" : 72 }}
, {{ "name" : "MaxPool_2", "averageMs" : 0.05, "medianMs" : 0.05, "percentage" : 20 }}
]"""
# A launch of a convolution and one of a pool, as Nsight Compute writes a raw page.
_COUNTERS = """"ID","Kernel Name","CC","gpu__time_duration.sum","lts__t_bytes.sum"
"","","","ns","byte"
"0","implicit_convolve_sgemm","8.7","180,000","1,200,000"
"1","pooling_fw_4d_kernel","8.7","50,000","900,000"
"""
_FLOAT = "Row major linear FP32"
_HALF = "Channel major FP16 format where channel % 8 == 0"
_ENGINE_GRAPH = f"""{{"Layers": [
{{"Name": "{_FIRST}", "LayerType": "Reformat", "Origin": "REFORMAT",
 "Inputs": [{{"Name": "x", "Dimensions": [1,3,224,224], "Format/Datatype": "{_FLOAT}"}}],
 "Outputs": [{{"Name": "y", "Dimensions": [1,3,224,224], "Format/Datatype": "{_HALF}"}}]}},
{{"Name": "Conv_0 + Relu_1", "LayerType": "CaskConvolution",
 "Inputs": [{{"Name": "y", "Dimensions": [1,3,224,224], "Format/Datatype": "{_HALF}"}}],
 "Outputs": [{{"Name": "z", "Dimensions": [1,64,55,55], "Format/Datatype": "{_HALF}"}}],
 "Weights": {{"Type": "Half", "Count": 23232}}}},
{{"Name": "MaxPool_2", "LayerType": "CaskPooling",
 "Inputs": [{{"Name": "z", "Dimensions": [1,64,55,55], "Format/Datatype": "{_HALF}"}}],
 "Outputs": [{{"Name": "p", "Dimensions": [1,64,27,27], "Format/Datatype": "{_HALF}"}}]}}
]}}"""
_PROGRAM = "print('tokens/s: 44.5')\n"
MAKERS: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        **dict.fromkeys(("mine.onnx", "detector.onnx", "classifier.onnx"), _network),
        "model.onnx": _text_model,
        "resnet50.onnx": _resnet,
        **dict.fromkeys(("blobs.onnx", "blobs.npz"), _classifier),
        **dict.fromkeys(
            ("small.onnx", "outputs.npz", "test_batch.bin", "cifar_predictions.txt"), _cifar
        ),
        "models/": _networks,
        **dict.fromkeys(("output/", "haxconn"), _haxconn),
        "frames.npz": _frames,
        "samples.npz": _samples,
        **dict.fromkeys(("run.log", "old.log", "run.log.gz", "a.log", "b.log"), _log),
        **dict.fromkeys(("runs/", "orin/runs/"), _orin),
        **dict.fromkeys(("runs-before/", "runs-after/", "cores"), _cores),
        "orin.csv": _text(_RATES),
        "runs.csv": _text(_OBSERVED),
        "problem.toml": _text(_PROBLEM),
        "resnet50.times.json": _text(_TRT_TIMES),
        "resnet50.profile.json": _text(_TRT_PROFILE),
        "profile.json": _text(_ENGINE_PROFILE),
        "counters.csv": _text(_COUNTERS),
        "graph.json": _text(_ENGINE_GRAPH),
        "grid.toml": _text('gpu = ["306MHz", "612MHz", "1224MHz"]\nemc = ["2133MHz", "3199MHz"]\n'),
        "modes.csv": _text(_MODES),
        "nvpmodel.conf": _nvpmodel,
        "detect.py": _text("import time\ntime.sleep(0.1)\n"),
        "llm.py": _text(_PROGRAM),
    }
)
