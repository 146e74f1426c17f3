"""Twelve public language models on six modules: does it fit, and how long may the context be.

    python benchmarks/fit_models.py > docs/results/fit.md

Nothing is measured. Beside it the baseline of forums: a file fits where it is smaller than 0.9 of
the module's nominal memory; how often that says another thing is counted.
"""

from __future__ import annotations

from mansard import api
from mansard.api.results import MemoryFit
from mansard.core.hardware.memory import MODULE_MEMORY

MODELS = (
    *("tinyllama-1.1b:Q8_0", "llama-3.2-1b:Q8_0", "llama-3.2-3b:Q4_K_M", "qwen3-4b:Q4_K_M"),
    *("gemma-3-4b:Q4_K_M", "mistral-7b:Q4_K_M", "llama-3.1-8b:Q4_K_M", "qwen3-8b:Q8_0"),
    *("phi-4:Q4_K_M", "qwen3-30b-a3b:Q4_K_M", "mixtral-8x7b:Q4_K_M", "llama-3.3-70b:Q4_K_M"),
)
MODULES = ("orin-nano-4gb", "orin-nano-8gb", "orin-nx-16gb", "agx-orin-32gb", "agx-orin-64gb")
SHARE = 0.9  # of the nominal memory, in the naive rule
HEAD = """# Language models in the memory of modules

`python benchmarks/fit_models.py > docs/results/fit.md`: twelve public models with llama.cpp at a
context of at most 4,096 tokens, modelled ([fitting](../use/fitting.md)). Each cell: the verdict,
the longest context that surely fits, and the largest smaller format that surely fits.
"""


def main() -> None:
    """Print the page."""
    modules = (*MODULES, "thor-128gb")
    answers = {module: api.fit(MODELS, board=module) for module in modules}
    print(HEAD)
    print("| model | weights | " + " | ".join(MODULE_MEMORY[name].name for name in modules) + " |")
    print("|---" * (len(modules) + 2) + "|")
    for at, model in enumerate(MODELS):
        weights = answers[modules[0]][at].needs[0].low_bytes / 2**30
        cells = " | ".join(cell(answers[module][at]) for module in modules)
        print(f"| {model} | {weights:.2f} GiB | {cells} |")
    every = [(module, one) for module in modules for one in answers[module]]
    counts = {name: sum(one.verdict == name for _, one in every) for name in VERDICTS}
    shown = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    other = [one for module, one in every if naive(module, one) != (one.verdict == "fits")]
    wrong = sum(one.verdict == "does not fit" for one in other)
    print(
        f'\nOf {len(every)} cells: {shown}. The rule "a file below {SHARE:.0%} of the nominal '
        f'memory fits" differs in {len(other)}: {wrong} do not fit, {len(other) - wrong} are '
        "uncertain or fit with less."
    )


VERDICTS = ("fits", "fits with less", "uncertain", "does not fit")


def naive(module: str, answer: MemoryFit) -> bool:
    """Whether the file alone is smaller than a share of the memory that the name says."""
    nominal_bytes = int(module.rpartition("-")[2].removesuffix("gb")) << 30
    return answer.needs[0].low_bytes < SHARE * nominal_bytes


def cell(answer: MemoryFit) -> str:
    """``fits, 36,864``; ``uncertain, 256; Q3_K_M``."""
    longest = f", {answer.longest_context:,}" if answer.longest_context else ""
    smaller = f"; {answer.smaller}" if answer.smaller else ""
    return f"{answer.verdict}{longest}{smaller}"


if __name__ == "__main__":
    main()
