"""How ``--help`` looks: values with names that mean something, and examples at the end.

The names of values stand here and not at each option, so that one thing has one name everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from typer.core import TyperCommand, TyperGroup

from mansard.cli.headings import by_heading, set_headings
from mansard.cli.needed import NEEDED
from mansard.core.errors import UsageError

# By the option without its dashes, or by the argument. Else: a file, a number, a choice.
_VALUES = MappingProxyType(
    {
        **dict.fromkeys(("mode", "other-mode", "default"), "MODE"),
        **dict.fromkeys(("runs", "board", "folder", "wheels", "fonts"), "FOLDER"),
        **dict.fromkeys(("width", "height", "font-size"), "LENGTH"),
        **dict.fromkeys(("network", "local", "offload", "front"), "NETWORK"),
        **dict.fromkeys(("model", "models", "remote-network"), "MODEL"),
        **dict.fromkeys(("name", "keep"), "NAME"),
        **dict.fromkeys(("label", "other-label"), "LABEL"),
        **dict.fromkeys(("dim", "trip"), "NAME=N"),
        **dict.fromkeys(("fixed", "value"), "NAME=VALUE"),
        **dict.fromkeys(("shape", "input"), "NAME=SHAPE"),
        **dict.fromkeys(("interval", "duration", "for", "window"), "TIME"),
        **dict.fromkeys(("meter-interval", "power-interval"), "TIME"),
        **dict.fromkeys(("time-limit", "max-latency", "max-first-token"), "TIME"),
        **dict.fromkeys(("local-latency", "decision-latency", "offload-latency"), "TIME"),
        **dict.fromkeys(("max-energy", "local-energy", "decision-energy", "battery"), "ENERGY"),
        **dict.fromkeys(("max-drop", "min-accuracy", "held-out", "threshold"), "SHARE"),
        **dict.fromkeys(("max-power", "rest-power"), "POWER"),
        **dict.fromkeys(("boundary", "rest", "seconds"), "SECONDS"),
        **dict.fromkeys(("data", "calibration", "places"), "PATH"),
        "batch": "N,N",
        "bandwidth": "BANDWIDTH",
        "check": "CHECK",
        "beta": "COST",
        "cache": "SIZE",
        "chip": "CHIP",
        "citation": "TEXT",
        "column": "NAME=COLUMN",
        "compute-capability": "X.Y",
        "container-engine": "ADDRESS",
        "cpus": "CPUS",
        "device": "DEVICE",
        "devices": "DEVICES",
        "dla-nodes": "NODES",
        "dynamic": "NAME:AXIS=SYMBOL",
        "each-layer": "LAYERS",
        "efficiency": "SHARE",
        "engine": "ENGINE",
        "exports": "FILE",
        "first": "FIRST",
        "from": "PATH",
        "hardware": "BOARD",
        "host": "HOST",
        "image": "IMAGE",
        "into": "PATH",
        "launch": "TIME",
        "listen": "ADDRESS",
        "logistic": "WEIGHTS",
        "logs": "LOG",
        "metric": "REGEX",
        **dict.fromkeys(("min-fps", "min-tokens-per-s"), "RATE"),
        **dict.fromkeys(("prompt", "context"), "TOKENS"),
        "model": "MODEL",
        "module": "MODULE",
        "offload-energy": "ENERGY",
        "peak": "PRECISION=RATE",
        "on": "ADDRESS",
        "precision": "PRECISION",
        "preprocess": "SETTINGS",
        "probability": "SHARE",
        "problem": "PROBLEM",
        "prometheus": "ADDRESS",
        "second": "SECOND",
        "server": "URL",
        "set": "KEY=VALUE",
        "source": "SOURCE",
        "timeout": "TIME",
        "workspace": "SIZE",
    }
)

# Two for each command, as one would type them.
EXAMPLES = MappingProxyType(
    {
        "bench": ("mansard bench", "mansard bench resnet50 --mode 15W,MAXN --runs runs"),
        "measure": (
            "mansard measure resnet50 --batch 1,8 --mode 15W",
            "mansard measure --host orin-1,orin-2 --name chat -- python3 my_program.py",
        ),
        "models build": (
            "mansard models build resnet50 --batch 1,8 --precision fp16",
            "mansard models build resnet50 --engine trtexec --dla 0 --dry-run",
        ),
        "multi contention": (
            "mansard multi contention --profile brief",
            "mansard multi contention --processor cpu --mode 2c --dry-run",
        ),
        "multi run": (
            "mansard multi run resnet50 mobilenet_v2 --duration 10s",
            "mansard multi run resnet50 yolov8n --devices gpu,cpu --batch 8",
        ),
        "models batch": (
            "mansard models batch resnet50",
            "mansard models batch resnet50 --batch 1,4,16 --mode measured --json",
        ),
        "models fit": (
            "mansard models fit llama-3.1-8b:Q4_K_M --board orin-nano-8gb",
            "mansard models fit resnet50 --here --batch 8 --engine tensorrt",
        ),
        "models layers": (
            "mansard models layers resnet50 --profile profile.json --graph graph.json",
            "mansard models layers resnet18 --runs runs --html layers.html",
        ),
        "score": (
            "mansard score resnet50 --batch 1,8",
            "mansard score bert_base --phase training --optimizer adam --json",
        ),
        "report": (
            "mansard report",
            "mansard report --runs boards/a --runs boards/b --output fleet.html",
        ),
        "compare": (
            "mansard compare runs runs --mode 15W --other-mode MAXN",
            "mansard compare baseline.json runs --check 'p50 +5%' --check 'memory +10%'",
        ),
        "models export": (
            "mansard models export torchvision:resnet50 -o resnet50.onnx",
            "mansard models export my_net.py:make --input x=1x3x224x224 -o net.onnx",
        ),
        "doctor": ("mansard doctor", "mansard doctor --json"),
        "data merge": (
            "mansard data merge boards/a boards/b --into fleet",
            "mansard data merge runs --into s3://bucket/boards",
        ),
        "data schema": ("mansard data schema recommend", "mansard data schema error"),
        "board modes": ("mansard board modes", "mansard board modes --config nvpmodel.conf"),
        "board plan": (
            "mansard board plan --next 4",
            "mansard board plan --mode grid.toml --network resnet50",
        ),
        "figure": (
            "mansard figure roofline --runs runs -o roofline.pdf",
            "mansard figure pareto resnet50 --width 89mm --font-size 7pt -o pareto.svg",
        ),
        "recommend": (
            "mansard recommend resnet50 --max-latency 20ms",
            "mansard recommend resnet50 --max-power 15W --check",
        ),
        "offload serve": (
            "mansard offload serve large.onnx",
            "mansard offload serve large.onnx --listen 0.0.0.0:8500 --preprocess unit",
        ),
        "offload run": (
            "mansard offload run s.onnx --server pc:8500 --data t.bin --threshold 0.8",
            "mansard offload run s.onnx --server pc:8500 --data t.bin --logistic resnet8-fp",
        ),
        "offload tune": (
            "mansard offload tune samples.npz --local-latency 2ms --offload-latency 40ms",
            "mansard offload tune samples.npz --costs modes.csv --min-accuracy 90%",
        ),
        "multi schedule": (
            "mansard multi schedule problem.toml --goal energy",
            "mansard multi schedule --from output --save-problem problem.toml",
        ),
        "board watch": (
            "mansard board watch",
            "mansard board watch --host nvidia@orin --record night.csv --duration 8h",
        ),
        "board restore": ("mansard board restore", "mansard board restore --host user@board"),
        "board telemetry": (
            "mansard board telemetry tegrastats.log",
            "mansard board telemetry --live --duration 30s --json",
        ),
        "data import": (
            'mansard data import table.csv --citation "A. Author, 2026" --module agx-orin',
            "mansard data import times.json --citation trtexec --fixed mode=MAXN",
        ),
        "demo": ("mansard demo", "mansard demo simulated --board agx-orin"),
        "demo simulated": (
            "mansard demo simulated",
            "mansard demo simulated --board orin-nano-super --mode 15W",
        ),
        "models ncu run": (
            "mansard models ncu run resnet50 --batch 8",
            "mansard models ncu run resnet50 --mode MAXN --runs runs",
        ),
        "models ncu import": (
            'mansard models ncu import raw.csv --citation "A. Author" --device A100',
            "mansard models ncu import net.ncu-rep --citation ours --device A100",
        ),
        "models ncu check": (
            "mansard models ncu check",
            "mansard models ncu check --network resnet50 --batch 8",
        ),
        "models list": ("mansard models list", "mansard models list --json"),
        "models show": ("mansard models show resnet50", "mansard models show bert_base --json"),
        "models write": ("mansard models write networks", "mansard models write networks resnet50"),
        "data image fit": ("mansard data image fit", "mansard data image fit jetpack-6.1 --json"),
        "data image list": ("mansard data image list", "mansard data image list --images own.toml"),
        "data image build": (
            "mansard data image build",
            "mansard data image build --wheels wheels --offline",
        ),
        "data image save": (
            "mansard data image save image.tar.gz",
            "mansard data image save cpu.tar.gz cpu",
        ),
        "data image load": (
            "mansard data image load image.tar.gz",
            "mansard data image load cpu.tar.gz --json",
        ),
        "data image libraries": (
            "mansard data image libraries",
            "mansard data image libraries jetpack-6.1 > requirements.txt",
        ),
    }
)


class HelpfulCommand(TyperCommand):
    """A command whose help names values by what they are, and ends with examples."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        _name_values(self.params)
        set_headings(str(self.name), self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse NaN, which lies in every range; no value; and what has no effect here."""
        words = list(args)  # the parser empties its own
        rest: list[str] = super().parse_args(ctx, args)
        _check_values(self, ctx, words)
        typed: dict[str, str] = {}
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if isinstance(value, float) and math.isnan(value):
                raise UsageError(f"{parameter.opts[-1]} is not a number", fix="write one")
            source = ctx.get_parameter_source(parameter.name)
            is_typed = source is not None and source.name == "COMMANDLINE"
            if is_typed and parameter.param_type_name == "option":
                names = parameter.secondary_opts if value is False else parameter.opts
                typed[str(parameter.name)] = names[0]
        if typed:
            _check_needed(ctx.command_path.partition(" ")[2], ctx.params, typed)
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What has to be given stands bare, and dots stand once."""
        return [usage_piece(piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options, many of them under headings; ranges in words."""
        parameters = self.get_params(ctx)
        arguments, options = (
            [parameter for parameter in parameters if parameter.param_type_name == kind]
            for kind in ("argument", "option")
        )
        for title, group in {"Arguments": arguments, **by_heading(options)}.items():
            records = [record for parameter in group if (record := help_record(parameter, ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The examples of the command."""
        _write_examples(ctx, formatter)


class SectionedGroup(TyperGroup):
    """A group that lists its commands under headings, in an order that a newcomer can follow."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        _name_values(self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse options without a value."""
        words = list(args)
        rest: list[str] = super().parse_args(ctx, args)
        _check_values(self, ctx, words)
        return rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One list for each heading."""
        del ctx
        width = max(map(len, self.commands), default=0)
        listed: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None)
            heading = panel if isinstance(panel, str) else "Commands"
            text = command.get_short_help_str(1000)
            listed.setdefault(heading, []).append((name.ljust(width), text))
        for heading, rows in listed.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The examples of a group that is a command too; its last words, if it has some."""
        _write_examples(ctx, formatter)
        super().format_epilog(ctx, formatter)


def _check_values(command: Any, ctx: Any, words: list[str]) -> None:
    """Raise UsageError for an empty value: a limit would be dropped, a path be this folder.

    The words of a program, behind ``--``, may be empty.
    """
    if "--" in words:
        words = words[: words.index("--")]
    values, _, _ = command.make_parser(ctx).parse_args(args=words)
    for parameter in command.params:
        value = values.get(parameter.name)
        texts = value if isinstance(value, (list, tuple)) else (value,)
        if any(isinstance(text, str) and not text.strip(" ,") for text in texts):
            name = parameter.name if parameter.param_type_name == "argument" else parameter.opts[0]
            raise UsageError(f"{name} has no value", fix="give one, or leave it out")


def _check_needed(command: str, given: Mapping[str, Any], typed: Mapping[str, str]) -> None:
    """Raise UsageError for an option of ``typed`` that has no effect beside the others.

    ``typed``: how each parameter on the command line is written; ``given``: all values by name.
    """
    for rule in NEEDED:
        is_ours = rule.commands is None or command in rule.commands
        for name in rule.names if is_ours else ():
            if name in typed and not rule.has_effect(given):
                raise UsageError(f"{typed[name]} has no effect {rule.why}", fix=rule.fix)


def _write_examples(context: Any, formatter: Any) -> None:
    lines = EXAMPLES.get(context.command_path.partition(" ")[2])
    if lines:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in lines))


def _name_values(parameters: Sequence[Any]) -> None:
    for parameter in parameters:
        if parameter.metavar is None:
            parameter.metavar = _value_name(parameter)


def _value_name(parameter: Any) -> str | None:
    """What a value is called; None for a flag."""
    if getattr(parameter, "is_flag", False):
        return None
    is_argument = parameter.param_type_name == "argument"
    key = parameter.name if is_argument else parameter.opts[0].lstrip("-")
    choices, usual = _choices_and_kind(parameter)
    if choices:
        return "|".join(choices)
    name = "N" if key == "batch" and usual == "N" else _VALUES.get(key, usual)
    return f"{name}..." if is_argument and parameter.nargs == -1 else name


def _choices_and_kind(parameter: Any) -> tuple[Sequence[str], str]:
    """What can be chosen from, and what a value is by its type: FILE, N, NUMBER or TEXT."""
    descriptor = getattr(parameter, "type_descriptor", None)
    if descriptor is None:  # Typer before 0.29 has the types of Click
        kind = type(parameter.type).__name__
        numbers = {"IntRange": "N", "FloatRange": "NUMBER", "IntParamType": "N"}
        usual = "FILE" if "Path" in kind else numbers.get(kind, "TEXT")
        return getattr(parameter.type, "choices", None) or (), usual
    (annotation,) = (
        get_args(descriptor.annotation) if descriptor.is_list else (descriptor.annotation,)
    )
    if descriptor.is_path or annotation is Path:
        return (), "FILE"
    number = "NUMBER" if annotation is float and descriptor.is_ranged else "TEXT"
    return descriptor.choices or (), "N" if annotation is int else number


def usage_piece(text: str) -> str:
    """Typer's ``{SOURCE}`` as ``SOURCE``, and ``[MODEL...]...`` of 0.29 as ``[MODEL...]``."""
    return re.sub(r"^\{(.*)\}$", r"\1", re.sub(r"(\.{3}[]}])\.{3}$", r"\1", text))


def help_record(parameter: Any, context: Any) -> tuple[str, str] | None:
    """What a parameter is called and means; None for a hidden one. Ranges are in words."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, text = record
    if parameter.param_type_name == "argument":  # Typer 0.29 adds the type to the name
        name = parameter.metavar or name
    return name, in_words(text)


def in_words(text: str) -> str:
    """The help of an option without ``x>=1``, which the error says; ``0<=x<=5`` as ``0 to 5``."""
    text = re.sub(r"  \[x>=[\d.]+\]|; x>=[\d.]+(?=\])", "", text)
    return re.sub(r"([\d.]+)<=x<=([\d.]+)", r"\1 to \2", text)
