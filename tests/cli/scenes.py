"""What commands print, each with records such as a user has: long names, wide numbers, remarks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from mansard import api
from mansard.analytics.data.opening import open_runs
from mansard.analytics.decisions.offload.measured import measured_offload
from mansard.analytics.models.predict.generation_times import generation_times
from mansard.analytics.models.predict.parts import measured_parts, part_sums
from mansard.analytics.pages.report.next_step import NextStep
from mansard.analytics.pages.report.summary import summary as summary_of
from mansard.api import results
from mansard.api.images import HereImage, TableImage
from mansard.cli.__main__ import run
from mansard.cli.board.image import print_images
from mansard.cli.board.machine import print_checks
from mansard.cli.counting.models import print_exported
from mansard.cli.data.runs import print_report
from mansard.cli.deciding.schedule import print_answer
from mansard.cli.measuring.builds import print_files
from mansard.cli.measuring.measure import print_programs
from mansard.cli.measuring.multi import print_mappings
from mansard.cli.measuring.networks import print_layers, print_networks
from mansard.cli.measuring.offload import print_offload
from mansard.cli.measuring.servers import print_generations
from mansard.core.errors import MansardError
from mansard.core.records import NamedWindow
from mansard.device.identity import identify
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.estimator.export import Exported
from mansard.measuring.runner import run_plan
from mansard.microbench.contention.plan import make_contention_plan
from mansard.microbench.plan import probe
from mansard.simulator import create_board
from mansard.sweeps.builds import BuiltFile
from reproductions.pagoda.__main__ import pagoda_scores, print_points
from reproductions.pagoda.page import pagoda_points
from tests.analytics.board_runs import write_board
from tests.analytics.factory import (
    manifest,
    measurement,
    program,
    write_networks,
    write_programs,
    write_two_modes,
)
from tests.analytics.generation_rows import generation, generation_request, generation_round
from tests.analytics.hierarchical_samples import made_up, write_npz
from tests.analytics.score_factory import layer, score, write_scores
from tests.analytics.test_accuracies import accuracy
from tests.analytics.test_concurrent_rows import RUN
from tests.analytics.test_measured_offload import block
from tests.analytics.test_measured_offload import run as offload_manifest
from tests.analytics.test_parts import CHAINS, PARTS, WHOLE
from tests.cli import test_cli_contention, test_cli_schedule
from tests.cli.decide_runs import published_runs
from tests.cli.in_process import streams
from tests.cli.test_cli_compare import slower_memory
from tests.cli.test_cli_ncu import ORIGIN, write_export
from tests.cli.test_cli_tune import COSTS
from tests.device.tegrastats_lines import LINES
from tests.documents.given import make_given

BOARDS = ("agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor")
LONG_NAME = "ssdlite320_mobilenet_v3_large_fp16_retrained"
DEVICE = "Jetson AGX Orin 64GB (published)"
REMARK = "it needs more memory than there is on this board, even without its other networks"


class Scene(NamedTuple):
    """A command line, or a function that prints, in a folder."""

    name: str
    show: Sequence[object] | Callable[[], object]
    cwd: Path


def all_scenes(folder: Path) -> list[Scene]:
    """Every command that prints a table, with its files in ``folder``."""
    found = [*_machines(folder), *_scores(folder), *_reports(folder), *_decisions(folder)]
    return [*found, *_measured(folder), *_counters(folder)]


def _machines(folder: Path) -> Iterator[Scene]:
    for name in BOARDS:
        root = create_board(name, folder)
        yield Scene(f"modes {name}", ("modes", "--board", root), folder)
    root = folder / "agx-orin"
    # Asked once: the load of this machine changes from one width to the next.
    yield Scene("doctor", partial(print_checks, api.doctor(None)), folder)
    yield Scene("doctor board", partial(print_checks, api.doctor(root)), folder)
    yield Scene("modes", ("modes",), folder)
    yield Scene("restore", ("restore", "--board", root), folder)
    dry = ("bench", "--board", root, "--mode", "all", "--dry-run", "--no-networks", "--local")
    yield Scene("dry run", dry, folder)
    fits = "yes: it is what this board's JetPack has, and the smallest that runs here"
    here = HereImage(
        image="jetson-r36",
        tag="mansard/jetson-r36-tensorrt:0.9.0-2f54f38dda6c",
        size_bytes=1_234_000_000,
        digest="sha256:2f54f38dda6c",
        revision="2f54f38dda6c",
        fits=fits,
    )
    base = "nvcr.io/nvidia/l4t-jetpack:r36.4.0@sha256:" + "0123456789abcdef" * 4
    known = [
        TableImage(image=name, base=base, cuda=cuda, python="3.10", fits=fits)
        for name, cuda in (("jetson-r36", "12.6"), ("cpu", None))
    ]
    found = results.ImageList((here,), tuple(known))
    yield Scene("image list", lambda: print_images(found), folder)
    yield Scene("image fit", ("image", "fit", "--board", root), folder)
    (folder / "log").write_text("\n".join(LINES.values()) + "\n", encoding="utf-8")
    yield Scene("telemetry", ("telemetry", "log"), folder)
    yield Scene("telemetry samples", ("telemetry", "log", "--samples"), folder)


def _scores(folder: Path) -> Iterator[Scene]:
    yield Scene("zoo list", ("models", "list"), folder)
    yield Scene("zoo show", ("models", "show", "ssdlite320_mobilenet_v3_large"), folder)
    yield Scene("score", ("score", "squeezenet1_1", "--batch", "8"), folder)
    yield Scene("score a language model", ("score", "llama-3.1-8b:Q4_K_M:kv=Q8_0"), folder)
    yield Scene("fit", ("fit", "llama-3.1-8b:Q4_K_M", "--board", "orin-nano-8gb"), folder)
    yield Scene("fit two", ("fit", "vgg16", "qwen3-4b", "--board", "orin-nx-16gb"), folder)
    batches = ",".join(str(2**power) for power in range(11))
    yield Scene("score batches", ("score", "alexnet", "--batch", batches), folder)
    yield Scene("score few", ("score", "alexnet", "--batch", "1,1024"), folder)
    for name in ("profile.json", "graph.json"):
        make_given(name, folder / name)
    engine = ("layers", "alexnet", "--profile", "profile.json", "--graph", "graph.json")
    yield Scene("layers", engine, folder)
    roofs = ("--device", "Orin Nano 8GB", "--mode", "15W")
    yield Scene("layers under roofs", (*engine, *roofs, "--all"), folder)
    yield Scene("score layers", ("score", "shufflenet_v2_x0_5", "--layers"), folder)
    exported = Exported(
        paths=(folder / f"{LONG_NAME}.onnx", folder / f"{LONG_NAME}.onnx.data"),
        network="torchvision:ssdlite320_mobilenet_v3_large",
        exporter="dynamo",
        opset=18,
        inputs={"image": ("batch", 3, 320, 320)},
        n_nodes=1234,
        n_parameters=3_440_000,
        size_bytes=13_800_000,
        checks=(),
        notes=(),
    )
    yield Scene("export", lambda: print_exported(exported), folder)


def _reports(folder: Path) -> Iterator[Scene]:
    board = write_board(folder / "board")
    names = ("resnet18", "alexnet", "squeezenet1_1", "mobilenet_v2", LONG_NAME)
    scores = [
        score(
            name,
            [layer(0, 10**9 * (number + 1), 10**7, precision="fp16")],
            batch=8,
            precision="fp16",
        )
        for number, name in enumerate((*names, "one more", "another"))
    ]
    write_scores(board, scores)
    yield from _report_scenes("board", _summary(board), board, folder)
    asked = ("recommend", *names[:-1], "ssdlite320_mobilenet_v3_large", "--runs", board)
    yield Scene("many recommendations", asked, folder)
    batches = ("batch", "ssdlite320_mobilenet_v3_large", "--runs", board, "--batch", "1,8")
    yield Scene("batches", batches, folder)

    both = write_two_modes(folder / "both")
    scores = [
        score(name, [layer(0, 10**9 * (number + 1), 10**6)])
        for number, name in enumerate(("resnet50", "bert_base", "yolov8n"))
    ]
    write_scores(both, scores)
    rows = [
        measurement(
            "nets", (0.08 * (number + 1),) * 9, model=each.model, model_hash=each.model_hash
        )
        for number, each in enumerate(scores)
    ]
    failed = measurement("nets", (), model=LONG_NAME, failure=REMARK)
    write_networks(both, [*rows, failed])
    prompt = NamedWindow(
        name="prompt", start_s=100.0, window_s=0.5, energy=None, unknown={"energy": "too short"}
    )
    ran = program("programs", (2.0, 2.1), power_w=10.0, windows=(prompt, prompt))
    write_programs(both, [ran])
    calibrated = ("recommend", "bert_base", "--runs", both, "--calibrate")
    yield Scene("calibrated", calibrated, folder)
    later = slower_memory(folder / "later")
    yield Scene("compare", ("compare", both, later, "--all"), folder)
    yield Scene("merge", ("merge", both, "--into", folder / "merged"), folder)

    accuracies = tuple(
        accuracy(network=LONG_NAME, device=DEVICE, precision=precision, remark=remark)
        for precision, remark in (("fp32", ""), ("int8", REMARK))
    )
    summary = replace(_summary(both), accuracies=accuracies)
    yield from _report_scenes("networks", summary, both, folder)
    result = results.MeasureResult(
        rows=tuple(
            results.MeasuredNetwork("board", "2c", row) for row in (*rows, failed, PARTS[0])
        ),
        times=summary.measured,
        accuracies=accuracies,
        failure=None,
    )
    measured = results.MeasuredProgram(manifest("programs", 0), ran, summary.programs)
    programs = results.ProgramResult((measured,), None)
    served = results.ServerResult(tuple(_served()), None)
    for all_rows in (False, True):
        show = partial(print_networks, result, both, with_layers=True, as_json=False)
        yield Scene(f"measure, {all_rows}", partial(_failing, show, all_rows), folder)
        show = partial(print_programs, programs, as_json=False)
        yield Scene(f"programs, {all_rows}", partial(_failing, show, all_rows), folder)
        show = partial(print_generations, served, as_json=False)
        yield Scene(f"servers, {all_rows}", partial(_failing, show, all_rows), folder)


def _served() -> Iterator[results.MeasuredGeneration]:
    """A server with a long name, and one that a prefix cache answered."""
    request = generation_request(10.0, [0.5, 0.6, 0.7], server_prompt_s=0.4, server_decode_s=0.2)
    one = generation_round([request])
    cached = generation_round([request], rejected=REMARK)
    for row in (
        generation("served", [one, one], workload=LONG_NAME),
        generation("cached", [cached], disturbances=(REMARK,), stability="unstable"),
    ):
        times = generation_times(row, DEVICE, "2c")
        yield results.MeasuredGeneration(manifest(row.run_id, 2, 1), row, times)


def _summary(runs: Path) -> results.Summary:
    return summary_of(open_runs([runs]))


def _report_scenes(
    name: str, summary: results.Summary, runs: Path, folder: Path
) -> Iterator[Scene]:
    step = NextStep(what="Run a network", command="mansard measure resnet50", about="runs")
    found = results.Report(runs / "report.html", summary, (), None, step)
    command = step.at(str(runs))
    for all_rows in (False, True):
        show = partial(print_report, found, all_rows=all_rows, as_json=False, next_line=command)
        yield Scene(f"report of {name}, {all_rows}", show, folder)


def _failing(show: Callable[..., object], all_rows: bool) -> None:
    """What prints and then raises the error of what could not be measured."""
    with contextlib.suppress(MansardError):
        show(all_rows=all_rows)


def _decisions(folder: Path) -> Iterator[Scene]:
    runs = published_runs(folder / "published")
    (folder / "modes.csv").write_text(
        "mode,gpu_mhz,memory_hz\nbetween,1000,2.4e9\nbeyond,2400,2.4e9\n", encoding="utf-8"
    )
    asked = ("recommend", "seen", "--runs", runs, "--mode", "modes.csv", "--max-latency", "9ms")
    yield Scene("recommend", asked, folder)
    rates = ("recommend", "seen", "--runs", runs, "--min-fps", "200", "--batch", "1,8")
    yield Scene("recommend rates", rates, folder)
    (folder / "mix.toml").write_text(
        '[[network]]\nmodel = "seen"\nrate = "10/s"\nprecision = "fp16"\n', encoding="utf-8"
    )
    yield Scene("mix", ("recommend", "--workload", "mix.toml", "--runs", runs), folder)
    yield Scene("plan", ("plan", "--runs", runs, "--mode", "modes.csv"), folder)
    write_npz(folder / "samples.npz", made_up(500))
    yield Scene(
        "offload tune", ("offload", "tune", "samples.npz", *COSTS, "--min-accuracy", "0.85"), folder
    )
    modes = ("--local", "seen", "--runs", runs, "--offload-latency", "30ms±10%")
    more = ("--offload-energy", "20mJ±5%", "--min-accuracy", "0.85", "--decision-latency", "1us")
    yield Scene("hi modes", ("offload", "tune", "samples.npz", *modes, *more), folder)
    table = folder / "table.csv"
    table.write_text("mode,network,batch,time_ms\nMAXN,seen,1,20.0\n", encoding="utf-8")
    named = ("--citation", "made up", "--device", DEVICE, "--runs", folder / "imported")
    with streams():
        assert run([str(word) for word in ("import", table, *named)]) == 0
    yield Scene("import again", ("import", table, *named), folder)
    problem = folder / "problem.toml"
    problem.write_text(test_cli_schedule.TWO, encoding="utf-8")
    found = api.schedule(api.ScheduleRequest(problem=problem))
    yield Scene("schedule", partial(print_answer, found), folder)
    network = results.RanNetwork(
        name=LONG_NAME,
        predicted_s=0.01,
        measured_s=0.011,
        predicted_per_s=100.0,
        measured_per_s=90.9,
        beside_solver_per_s=88.1,
    )
    ran = results.RanSchedule(
        method="exact, one network on each accelerator",
        mode="MAXN",
        predicted_s=0.01,
        measured_s=0.011,
        beside_solver_s=0.012,
        error=0.1,
        networks=(network, network),
        remark=REMARK,
    )
    executed = msgspec.structs.replace(found, ran=(ran, ran))
    yield Scene("schedule run", lambda: print_answer(executed), folder)


def _measured(folder: Path) -> Iterator[Scene]:
    parts = folder / "parts"
    write_networks(parts, (WHOLE, *PARTS, *CHAINS))
    dataset = open_runs([parts])
    nothing = results.MeasureResult((), (), (), None)
    layers = results.LayersResult(
        nothing, (), tuple(measured_parts(dataset)), tuple(part_sums(dataset)), (), None
    )
    yield Scene(
        "layers alone",
        lambda: print_layers(layers, parts, with_layers=False, all_rows=True, as_json=False),
        folder,
    )
    missing = BuiltFile(
        machine="board",
        network=LONG_NAME,
        batch=1,
        precision="fp16",
        engine="tensorrt",
        device="Orin (8.7)",
        path=folder / "runs/engines" / f"{LONG_NAME}-0123456789ab.engine",
        state="missing",
        build=None,
    )
    yield Scene("build", lambda: print_files((missing, missing)), folder)
    offload = measured_offload(offload_manifest(), block())
    yield Scene("offload run", lambda: print_offload(offload), folder)
    stage = replace(RUN.stages[0], network=LONG_NAME)
    mapping = replace(RUN, stages=(stage,) * 3)
    many = [results.MeasuredMulti("board", "MAXN", mapping) for _ in range(2)]
    yield Scene("multi", lambda: print_mappings(many), folder)
    machine = identify()
    if len(machine.cpus) > 1:
        mode = choose_modes("", SYSTEM_ROOT, machine)[0]
        plan = make_contention_plan(machine, mode, "brief", probe("cpu"))
        run_plan(plan, folder / "contention", measurer=test_cli_contention.made_up)
        told = ("contention", "--profile", "brief", "--processor", "cpu", "--runs", "contention")
        yield Scene("contention", told, folder)


def _counters(folder: Path) -> Iterator[Scene]:
    runs = write_two_modes(folder / "counted")
    export = write_export(folder)
    given = ("--network", "alexnet", "--precision", "fp32", "--batch", "1", "--runs", runs)
    with streams():
        assert run([str(word) for word in ("ncu", "import", export, *ORIGIN, *given)]) == 0
    yield Scene("ncu import again", ("ncu", "import", export, *ORIGIN, *given), folder)
    yield Scene("ncu check", ("ncu", "check", "--runs", runs), folder)
    pagoda = pagoda_points(pagoda_scores())
    yield Scene("pagoda", lambda: print_points(pagoda), folder)
