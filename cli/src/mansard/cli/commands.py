"""The commands of the command line, by heading and group, without importing them.

``app`` imports the module of a command when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias


class Command(NamedTuple):
    """A command: the module below ``mansard.cli``, the function in it, and its short help.

    ``has_short_name``: in a group, whether it can be called without the group.
    """

    module: str
    function: str
    summary: str  # at most 65 characters
    has_short_name: bool = True


class CommandGroup(NamedTuple):
    """A group of commands, by name; groups may contain groups."""

    summary: str
    commands: Mapping[str, Entry]


Entry: TypeAlias = "Command | CommandGroup"

COMMANDS: Mapping[str, Mapping[str, Entry]] = MappingProxyType(
    {
        "Begin here": {
            "doctor": Command("board.machine", "doctor", "Check this machine, with remedies"),
            "bench": Command("measuring.bench", "bench", "Measure this machine and write a report"),
            "report": Command("data.runs", "report", "Write the report again from measured runs"),
            "demo": Command(
                "measuring.bench", "demo_app", "A report of published figures, without a board"
            ),
        },
        "Measure and score": {
            "measure": Command(
                "measuring.measure",
                "measure",
                "Latency and energy of networks, programs or servers",
            ),
            "score": Command(
                "counting.score", "score", "FLOPs, parameters and bytes of every layer"
            ),
            "multi": CommandGroup(
                "Several networks at once, on one or more devices",
                {
                    "run": Command(
                        "measuring.multi",
                        "multi",
                        "Measure networks that run at once",
                        has_short_name=False,
                    ),
                    "contention": Command(
                        "measuring.multi",
                        "contention",
                        "Contention of GPU and CPUs for memory bandwidth",
                    ),
                    "schedule": Command(
                        "deciding.schedule",
                        "schedule",
                        "The best schedule of networks on several accelerators",
                    ),
                },
            ),
            "offload": CommandGroup(
                "A small network on the board, a larger one on a server",
                {
                    "serve": Command(
                        "measuring.offload",
                        "serve_network",
                        "Serve the larger network over HTTP",
                        has_short_name=False,
                    ),
                    "run": Command(
                        "measuring.offload",
                        "run_offload",
                        "Measure the small network with a server",
                        has_short_name=False,
                    ),
                    "tune": Command(
                        "deciding.tune",
                        "tune",
                        "Choose samples to offload, and the power mode",
                        has_short_name=False,
                    ),
                },
            ),
        },
        "Decide": {
            "recommend": Command(
                "deciding.recommend", "recommend", "The power mode for your networks"
            ),
            "compare": Command("deciding.compare", "compare", "Compare boards, modes or builds"),
            "figure": Command(
                "deciding.figure", "figure", "A figure or a table for a paper or a slide"
            ),
        },
        "More": {
            "models": CommandGroup(
                "Networks: list, export, build, memory, layers, counters",
                {
                    "list": Command(
                        "counting.models",
                        "list_networks",
                        "The networks that ship with Mansard",
                        has_short_name=False,
                    ),
                    "show": Command(
                        "counting.models",
                        "show_network",
                        "One network, its source and work",
                        has_short_name=False,
                    ),
                    "write": Command(
                        "counting.models",
                        "write_networks",
                        "Write shipped networks as ONNX files",
                        has_short_name=False,
                    ),
                    "export": Command(
                        "counting.models", "export", "Export a PyTorch network to ONNX, checked"
                    ),
                    "build": Command(
                        "measuring.builds", "build", "Build engine files without measuring"
                    ),
                    "fit": Command("deciding.fit", "fit", "Check whether networks fit into memory"),
                    "batch": Command("deciding.batch", "batch", "Time and energy over batch sizes"),
                    "layers": Command(
                        "counting.layers", "layers", "Compare an engine's layers with their roofs"
                    ),
                    "ncu": CommandGroup(
                        "Counters of Nsight Compute, compared with the estimate",
                        {
                            "run": Command(
                                "counting.ncu", "run_networks", "Run networks under Nsight Compute"
                            ),
                            "import": Command(
                                "counting.ncu", "import_exports", "Read exports of Nsight Compute"
                            ),
                            "check": Command(
                                "counting.ncu",
                                "check_estimates",
                                "Compare estimates with counters, by layer",
                            ),
                        },
                    ),
                },
            ),
            "board": CommandGroup(
                "A board: watch it, its power modes, its logs",
                {
                    "watch": Command("board.watch", "watch", "Clocks, power and throttling, live"),
                    "modes": Command(
                        "board.machine", "modes", "The power modes of a board, and their peaks"
                    ),
                    "plan": Command("deciding.plan", "plan", "Power modes to measure next"),
                    "restore": Command(
                        "board.machine", "restore", "Restore a board after an interrupted run"
                    ),
                    "telemetry": Command(
                        "data.telemetry", "telemetry", "Summarise logs of tegrastats"
                    ),
                },
            ),
            "data": CommandGroup(
                "Runs: import, merge, schemas, container images",
                {
                    "import": Command("data.runs", "import_tables", "Import published figures"),
                    "merge": Command("data.runs", "merge", "Merge runs of many boards"),
                    "schema": Command("schemas", "schema", "JSON Schema of a command's output"),
                    "image": CommandGroup(
                        "The container images that measurements run in",
                        {
                            "fit": Command(
                                "board.image",
                                "fit_image",
                                "The image that fits this machine, and why",
                            ),
                            "list": Command(
                                "board.image",
                                "list_images",
                                "Images built here, and all known ones",
                            ),
                            "build": Command(
                                "board.image",
                                "build_image",
                                "Build the image that fits this machine",
                            ),
                            "save": Command(
                                "board.image",
                                "save_image",
                                "Save an image as a file, with its digest",
                            ),
                            "load": Command(
                                "board.image", "load_image", "Load a saved image after checking it"
                            ),
                            "libraries": Command(
                                "board.image",
                                "list_libraries",
                                "Libraries of an image, for 'pip download'",
                            ),
                        },
                    ),
                },
            ),
        },
    }
)
# The group of each command that can be called without it.
GROUP_OF: Mapping[str, str] = MappingProxyType(
    {
        name: group
        for commands in COMMANDS.values()
        for group, entry in commands.items()
        if isinstance(entry, CommandGroup)
        for name, inner in entry.commands.items()
        if isinstance(inner, CommandGroup) or inner.has_short_name
    }
)
