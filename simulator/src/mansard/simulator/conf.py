"""Writes the nvpmodel.conf of a simulated board, in the grammar of the real files."""

from __future__ import annotations

from mansard.simulator.figures import Figures, Mode, Param


def render_conf(figures: Figures) -> str:
    """The whole file; the EMC header lacks its blank, as in the real ones."""
    default = f"< PM_CONFIG DEFAULT={figures.default} >"
    return "\n".join(
        (
            f"# {figures.model}: simulated by Mansard, there is no such board",
            "",
            *(_param(param) for param in figures.params),
            *(_mode(mode) for mode in figures.modes),
            "# the default power mode",
            default,
            "",
        )
    )


def _param(param: Param) -> str:
    opening = "<PARAM" if param.name == "EMC" else "< PARAM"
    lines = "".join(f"{argument} {path}\n" for argument, path in param.arguments)
    return f"{opening} TYPE={param.kind} NAME={param.name} >\n{lines}"


def _mode(mode: Mode) -> str:
    lines = "".join(f"{' '.join(setting)}\n" for setting in mode.settings)
    return f"< POWER_MODEL ID={mode.id} NAME={mode.name} >\n{lines}"
