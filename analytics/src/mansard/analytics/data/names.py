"""Names from outside, made distinct and readable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from mansard.analytics.data.machines import device_id, machine_id, whole_machine
from mansard.core.hardware.machine_names import machine_words
from mansard.core.records import MachineIdentity, Manifest, Measurement
from mansard.core.text import natural_key, printable, uncounted

if TYPE_CHECKING:
    import polars as pl

    from mansard.analytics.data.dataset import Dataset

LONGEST_NAME = 80
_SIMULATED = " (simulated)"  # ends the name of a simulated board
_HOST_END = ": "  # between the name of a host and its device
_ID_CHARACTERS = 6  # of a device's id, where names do not tell devices apart
_LONGEST_KERNEL = 48  # characters: names of templates have hundreds
_FUNCTOR = re.compile(r"(\w+?)(?:CUDAKernelImpl|_kernel_cuda|Functor\b)|CUDAFunctor_(\w+)")
_LEADING = re.compile(r"^(?:void )|^std::enable_if<!?\w+, void>::type ")
_CUTLASS = re.compile(r"[<:](cutlass_\w+)")


def display_name(name: str) -> str:
    """A name from outside, on one line and of readable length: a cut one ends in an ellipsis.

    Not escaped for HTML.
    """
    return uncounted(printable(name, LONGEST_NAME)).strip() or "(no name)"


def network_names(dataset: Dataset) -> dict[str, str]:
    """How each network is called on the page, by ``network_key``.

    Two files of one name get the start of their hash beside it.
    """
    files = {(score.model, score.model_hash) for score in dataset.scores}
    files |= {(row.model, row.model_hash) for row in dataset.measurements if not row.is_part}
    plain = [display_name(model) for model, _ in files]
    return {
        network_key(model, model_hash): (
            display_name(model)
            if plain.count(display_name(model)) == 1
            else f"{display_name(model)} ({display_name(model_hash[:8])})"
        )
        for model, model_hash in sorted(files)
    }


def network_key(model: str, model_hash: str) -> str:
    """What identifies a network: its file's hash and its name."""
    return f"{model_hash}|{model}"


def engine_name(row: Measurement) -> str:
    """What ran a network, in a few words: ``onnxruntime cpu``.

    The threads are named where they are not one for each CPU of the mode: else each number of CPUs
    would be an engine of its own, and no model would hold over modes.
    """
    words = [engine_words(row.engine, row.provider)]
    if row.engine in _BUILDING:
        core = row.options.get("dla_core")
        words += [] if core is None else [f"DLA {core}"]
        words += [f"nodes {row.options['dla_nodes']}"] if "dla_nodes" in row.options else []
        words += ["open batch"] if "open" in row.options else []
        words += ["calibrated"] if "calibration" in row.options else []  # by its builder
        words += [f"{word} {row.options[key]}" for key, word in _ASKED if key in row.options]
    if row.processor == "cpu" and row.threads not in {None, len(row.cpus)}:
        words.append("1 thread" if row.threads == 1 else f"{row.threads} threads")
    words += [f"CPUs {row.options['cpus']}"] if "cpus" in row.options else []
    words += [f"{name[1:]}={value}" for name, value in row.options.items() if name[:1] == "$"]
    words += ["graph"] if row.launching == "graph" else []
    words += ["blocking"] if row.waiting == "block" else []
    words += [_COPIES[row.copies]] if row.copies != "none" else []
    return display_name(" ".join(words))


def engine_words(engine: str, provider: str) -> str:
    """``onnxruntime cpu``, ``tensorrt``: an engine, and its provider where that is another."""
    name = display_name(_ENGINES.get(engine, engine))
    return name if provider == engine else f"{name} {display_name(provider)}"


_BUILDING = frozenset({"tensorrt", "trtexec"})  # whose rows have the options of their builds
# Of a build, where they are not the builder's own.
_ASKED = (("optimization_level", "level"), ("workspace_bytes", "workspace"))
_ENGINES = {"ort": "onnxruntime"}
_COPIES = {"in": "with copies in", "out": "with copies out", "both": "with copies"}


_SIDE = re.compile(r"(.+?)[ _@-](\d{2,4})(?:x\d{2,4})?", re.IGNORECASE)
_SIDES = range(64, 4097, 16)  # of images, in pixels; resnet_101 and vgg-16 are no sizes
# Of networks of the zoo that others recorded in several sizes, by their plain names.
ZOO_SIDES = MappingProxyType({"yolov8n": 640, "yolov8s": 640})


def plain_network(name: str) -> tuple[str, int | None]:
    """The letters and digits of a network's name, and the side of its image where it ends in one.

    ``YOLOv8n-640``, ``yolov8n_640x640`` and the zoo's ``yolov8n`` are one: ("yolov8n", 640).
    """
    match = _SIDE.fullmatch(name)
    side = int(match[2]) if match else 0
    base = match[1] if match and side in _SIDES else name
    plain = "".join(letter for letter in base.casefold() if letter.isalnum())
    return plain, side if side in _SIDES else ZOO_SIDES.get(plain)


def engine_kind(words: str | None) -> str | None:
    """What ran a network, without its options: "tensorrt", "onnxruntime cuda"; None: not said.

    ``words``: an ``engine_name``, or the method of a published time.
    """
    known = re.findall(r"[a-z]+", (words or "").casefold())
    if not known:
        return None
    is_dla = ["dla"] if "dla" in known else []
    providers = [word for word in known if word in {"tensorrt", "cuda", "cpu"}]
    if "onnxruntime" in known or "ort" in known:
        return " ".join(["onnxruntime", *providers[:1], *is_dla])
    kind = next((word for word in ("pytorch", "torch", "trtexec", "tensorrt") if word in known), "")
    named = {"trtexec": "tensorrt", "torch": "pytorch"}.get(kind, kind)
    return " ".join([named, *is_dla]) if named else " ".join(known)


def window_name(workload: str, window: str) -> str:
    """What tables and ``recommend`` call a window that a program named: ``llm [prompt]``."""
    return f"{display_name(workload)} [{display_name(window)}]"


def first_names(names: Sequence[str], most: int = 4, separator: str = ", ") -> str:
    """``a, b, c, d and 3 more``: the first, and how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def in_order(names: Sequence[str]) -> list[str]:
    """Each name once, sorted without regard to case."""
    return sorted(set(names), key=lambda name: (name.casefold(), name))


def display_text(text: str) -> str:
    """A sentence from outside, on one line; it may be longer than a name."""
    return " ".join(display_name(part) for part in text.split(" "))[:600]


def kernel_text(kernel: str) -> str:
    """A kernel's own name without its template, and what PyTorch fills a template with:
    ``vectorized_elementwise_kernel (Gelu)``."""
    name = _LEADING.sub("", display_text(kernel).replace("<unnamed>::", ""))
    inner, functor = _CUTLASS.search(name), _FUNCTOR.search(name)
    short = inner[1] if inner else re.split(r"[<(]", name, maxsplit=1)[0].split("::")[-1].strip()
    shown = f"{short} ({functor[1] or functor[2]})" if functor else short or name
    return shown if len(shown) <= _LONGEST_KERNEL else f"{shown[: _LONGEST_KERNEL - 1]}…"


def run_labels(manifests: Sequence[Manifest]) -> dict[str, str]:
    """A short name for each run, as long as it must be to tell the runs apart."""
    hosts = _hosts(manifests)
    names = {device_id(manifest): _with_host(manifest, hosts) for manifest in manifests}
    short = short_devices(names.values())
    for parts in _NAME_PARTS:
        labels = {
            manifest.run_id: ", ".join(
                ([short[names[device_id(manifest)]]] if len(names) > 1 else [])
                + [word for part in parts if (word := part(manifest))]
            )
            for manifest in manifests
        }
        if len(set(labels.values())) == len(labels):
            return labels
    return {manifest.run_id: f"run {manifest.run_id}" for manifest in manifests}


def device_labels(manifests: Sequence[Manifest]) -> dict[str, str]:
    """The device of each run, by run id: a processor of a machine, in a few words.

    Of several machines those that were measured with --host have that name in front: ``orin-1:
    NVIDIA Jetson Orin Nano``. Devices that are still called alike, such as two equal boards that
    were measured on themselves, have the start of their id added.
    """
    hosts = _hosts(manifests)
    names = {
        device_id(manifest): display_name(_with_host(manifest, hosts)) for manifest in manifests
    }
    labels = told_apart(names)
    return {manifest.run_id: labels[device_id(manifest)] for manifest in manifests}


def told_apart(names: Mapping[str, str]) -> dict[str, str]:
    """``names`` by id; equal ones have the start of their id added."""
    n_of_name = Counter(names.values())
    return {
        identity: name if n_of_name[name] == 1 else _with_id(name, identity)
        for identity, name in names.items()
    }


def _with_id(name: str, identity: str) -> str:
    """``name`` and the start of an id: at most ``LONGEST_NAME``, so that no page cuts the id."""
    room = LONGEST_NAME - _ID_CHARACTERS - len("… ()")
    return f"{uncounted(printable(name, room))} ({identity[:_ID_CHARACTERS]})"


def short_devices(devices: Iterable[str]) -> dict[str, str]:
    """Short names by ``device_labels``: the host's, where each device has its own."""
    hosts = {device: device.partition(_HOST_END)[0] for device in dict.fromkeys(devices)}
    n_of_host = Counter(hosts.values())
    return {device: host if n_of_host[host] == 1 else device for device, host in hosts.items()}


def _hosts(manifests: Sequence[Manifest]) -> dict[str, str]:
    """The host's name of each machine, by machine id; empty where there is one machine."""
    machines = {machine_id(manifest.machine): manifest.host for manifest in manifests}
    machines |= {machine_id(one.machine): one.host for one in manifests if one.host}
    return machines if len(machines) > 1 else {}


def _with_host(manifest: Manifest, hosts: Mapping[str, str]) -> str:
    host = hosts.get(machine_id(manifest.machine))
    return f"{host}{_HOST_END}{_device(manifest)}" if host else _device(manifest)


def device_machines(manifests: Sequence[Manifest]) -> dict[str, MachineIdentity]:
    """The machine of each device, by its label: that of its last run."""
    labels = device_labels(manifests)
    return {labels[manifest.run_id]: manifest.machine for manifest in manifests}


def _device(manifest: Manifest) -> str:
    """The name of a processor: a card's own, of a Jetson the board's."""
    machine, gpu = manifest.machine, manifest.gpu
    if whole_machine(manifest):
        whole = "whole board" if machine.kind == "jetson" else "whole"
        return f"{machine_words(machine.name)} ({whole})"
    name = processor_name(manifest)
    return name if gpu is None or gpu.mig is None else f"{name} {gpu.mig}"


def processor_name(manifest: Manifest) -> str:
    """The processor that was measured: a card's own name, of a Jetson's GPU the board's.

    With a card in the machine, the CPU is marked as such.
    """
    machine, gpu = manifest.machine, manifest.gpu
    if gpu is not None:
        is_card = not gpu.is_integrated
        return machine_words(gpu.name) if is_card else _gpu_of(machine_words(machine.name))
    name = machine_words(machine.name)
    return f"{name} (CPU)" if machine.kind == "gpu" else name


def _gpu_of(board: str) -> str:
    """``Jetson AGX Orin GPU (simulated)`` of ``Jetson AGX Orin (simulated)``."""
    plain = board.removesuffix(_SIMULATED)
    return f"{plain} GPU{board[len(plain) :]}"


def label_text(label: str) -> str:
    """A label as tables show it; empty where there is none."""
    return display_name(label) if label else ""


def label_words(label: str) -> str:
    """A label, or that there is none, in words."""
    return f"label {display_name(label)}" if label else "runs without a label"


def _label(manifest: Manifest) -> str:
    return label_words(manifest.label) if manifest.label else ""


_NAME_PARTS: tuple[tuple[Callable[[Manifest], str], ...], ...] = (
    (lambda manifest: manifest.mode_read_back.name,),
    (lambda manifest: manifest.mode_read_back.name, lambda manifest: manifest.profile),
    (lambda manifest: manifest.mode_read_back.name, _label),
    (
        lambda manifest: manifest.mode_read_back.name,
        lambda manifest: manifest.profile,
        _label,
        lambda manifest: manifest.started_utc[:16].replace("T", " "),
    ),
    (
        lambda manifest: manifest.mode_read_back.name,
        lambda manifest: f"run {manifest.run_id[:8]}",
    ),
)


# As ``estimator.decoding.stage_name`` writes it.
_STAGE = re.compile(r"(?P<model>.+) \[(?P<stage>prefill|decode) (?P<tokens>\d+)\]")


def stage_columns() -> dict[str, pl.Expr]:
    """Of a frame with networks and phases: ``model``, the network without its stage, and ``kind``,
    its stage, or else its phase."""
    import polars as pl

    named, network = f"^(?:{_STAGE.pattern})$", pl.col("network")
    return {
        "model": pl.coalesce(network.str.extract(named, 1), network),
        "kind": pl.coalesce(network.str.extract(named, 2), "phase"),
    }


def place_in_order(names: pl.Series) -> pl.Expr:
    """What sorts a frame by its column ``names``, numbers in them by their size."""
    import polars as pl

    ordered = sorted(names.unique().to_list(), key=natural_key)
    return pl.col(names.name).replace_strict(ordered, range(len(ordered)), return_dtype=pl.Int64)


def stage_of(network: str) -> tuple[str, str, int] | None:
    """The model, its stage and the tokens of a name; None where it is of no stage."""
    match = _STAGE.fullmatch(network)
    return None if match is None else (match["model"], match["stage"], int(match["tokens"]))
