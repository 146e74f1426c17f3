"""TeX of the documents as MathML."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.site.equations import mathml, with_equations
from tools.site.hook import with_plain_pipes

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs").rglob("*.md"))


@pytest.mark.parametrize(
    ("tex", "elements"),
    [
        (r"\frac1P", "<mfrac><mrow><mn>1</mn></mrow><mrow><mi>P</mi></mrow></mfrac>"),
        (r"\frac12", "<mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac>"),
        (r"\text{if } 1.5", "<mtext>if&#160;</mtext><mn>1.5</mn>"),
        ("Q_g", "<msub><mrow><mi>Q</mi></mrow><mrow><mi>g</mi></mrow></msub>"),
        (
            "x'^2",
            "<msup><mrow><mi>x</mi></mrow><mrow><mo>′</mo><mn>2</mn></mrow></msup>",
        ),
        (
            r"\sum_g",
            '<munder><mrow><mo movablelimits="true">∑</mo></mrow><mrow><mi>g</mi></mrow></munder>',
        ),
        (r"a \le b", "<mi>a</mi><mo>≤</mo><mi>b</mi>"),
        ("a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
    ],
)
def test_an_equation(tex: str, elements: str) -> None:
    assert mathml(tex) == elements


@pytest.mark.parametrize("tex", [r"\nonsense x", "{a", r"\frac{a}", "a}"])
def test_what_is_no_equation(tex: str) -> None:
    with pytest.raises(ValueError, match=r"is unknown here|ends too early"):
        mathml(tex)


def test_code_is_no_equation() -> None:
    text = "`$HOME` and\n\n```sh\necho $A $B\n```\n\n$a$"
    drawn = "<span><math><mi>a</mi></math></span>"
    assert with_equations(text) == text.replace("$a$", drawn)


def test_a_long_equation_can_break_before_a_sign() -> None:
    drawn = '<math><mi>a</mi></math><wbr><math><mo form="infix">=</mo><mi>b</mi></math>'
    assert with_equations("$a = b$") == f"<span>{drawn}</span>"


def test_only_left_and_right_grow() -> None:
    row = '<mi>f</mi><mo stretchy="false">(</mo><mi>x</mi><mo stretchy="false">)</mo>'
    assert mathml("f(x)") == row
    assert mathml(r"\left(x\right)") == "<mrow><mo>(</mo><mi>x</mi><mo>)</mo></mrow>"


def test_pipes_of_a_table() -> None:
    text = "| `a\\|b` | c \\| d |\n\n`a\\|b`"
    assert with_plain_pipes(text) == "| `a|b` | c \\| d |\n\n`a\\|b`"


def test_every_equation_of_the_documents_is_known() -> None:
    found = sum(with_equations(page.read_text("utf-8")).count("<math") for page in PAGES)
    assert found > 300
