"""Language models from limits of hardware and imported tables to answers and figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard import api
from mansard.analytics.data.opening import open_runs
from mansard.analytics.pages.figures.contexts import context_figures
from mansard.analytics.pages.figures.plane import shortened_label
from mansard.analytics.pages.results import compute
from mansard.api.results import Recommendation
from mansard.core.errors import UsageError

BOARD = "Jetson Orin Nano 8GB Super"
DEVICE = f"{BOARD} (published)"
SMALL, LARGE = "smollm2-135m:Q8_0", "llama-3.2-1b:Q4_K_M"
# 512 tokens of a prompt at 2,560 a second, 128 of an answer at 100 and 50 a second, 10 and 4 W.
TABLE = """\
mode,test,tokens_per_s,power_w
MAXN_SUPER,pp512,2560,12
MAXN_SUPER,tg128,100,10
15W,tg128,50,4
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    table = folder / "tokens.csv"
    table.write_text(TABLE, encoding="utf-8")
    origin = api.TableOrigin(device=BOARD, citation="A. Author, 2026")
    api.import_tables(
        [table],
        origin,
        fixed={"network": SMALL},
        hardware="Orin Nano 8GB Super",
        runs=folder / "runs",
    )
    return folder / "runs"


def asked(runs: Path, model: str, *, calibrate: bool = False) -> api.PredictionRequest:
    networks = (api.NetworkRequest(name=model),)
    return api.PredictionRequest(runs=(str(runs),), networks=networks, calibrate=calibrate)


def answer(runs: Path, wanted: api.Wanted, model: str = SMALL) -> Recommendation:
    (found,) = api.recommend(asked(runs, model, calibrate=True), wanted)
    return found


def test_measured_stages_decide(runs: Path) -> None:
    # 10 W at 100 tokens a second are 0.1 J a token, 4 W at 50 a second 0.08 J.
    found = answer(runs, api.Wanted(minimise="energy"))
    assert found.network == f"{SMALL} [decode 64]"
    assert found.choice is not None
    assert found.choice.mode == "15W"
    assert found.choice.energy_j == pytest.approx(0.08)
    fast = answer(runs, api.Wanted(minimise="energy", min_fps=80))
    assert fast.choice is not None
    assert fast.choice.mode == "MAXN_SUPER"


def test_a_first_token_that_is_late_leaves_modes_out(runs: Path) -> None:
    # 512 tokens take 0.2 s in MAXN_SUPER; 15W has 3/5 of its clock.
    found = answer(runs, api.Wanted(minimise="energy", max_first_token_s=0.21))
    assert found.choice is not None
    assert found.choice.mode == "MAXN_SUPER"
    (prefill,) = found.prefill
    assert prefill.latency_s == pytest.approx(0.2)
    assert "The first token of a prompt of 512 tokens comes after 200" in found.sentence
    assert any(note.startswith("3 modes left out") for note in found.notes)
    none = answer(runs, api.Wanted(max_first_token_s=0.001))
    assert none.sentence.startswith(
        "No mode makes the first token of a prompt of 512 tokens within 1"
    )


@pytest.mark.parametrize(
    ("limit_s", "message"),
    [
        (0.0, "a limit on the first token cannot be 0 s"),
        (-1.0, "max_first_token_s is -1.0; give a finite number"),
        (float("nan"), "max_first_token_s is nan"),
        (float("inf"), "max_first_token_s is inf"),
    ],
)
def test_an_impossible_limit_on_the_first_token_is_refused(
    runs: Path, limit_s: float, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        answer(runs, api.Wanted(max_first_token_s=limit_s))


def test_one_measured_model_predicts_another(runs: Path) -> None:
    best = api.predict(asked(runs, LARGE)).predictions.filter(mode="MAXN_SUPER")
    calibrated = api.predict(asked(runs, LARGE, calibrate=True)).predictions
    calibrated = calibrated.filter(mode="MAXN_SUPER")
    assert calibrated["is_calibrated"].to_list() == [True, True]
    for stage in ("decode", "prefill"):
        at_best, found = (
            frame.filter(network=f"{LARGE} [{stage} 512]") for frame in (best, calibrated)
        )
        assert found["latency_s"][0] > at_best["latency_s"][0]
        assert found["latency_low_s"][0] < found["latency_s"][0] < found["latency_high_s"][0]
        # The power is that of the model that was metered: 10 W, and 12 W of prefill.
        assert at_best["power_w"].to_list() == [None]
        expected_w = {"decode": 10.0, "prefill": 12.0}[stage]
        assert found["power_w"][0] == pytest.approx(expected_w)


def test_a_report_scores_the_models_that_are_named(runs: Path) -> None:
    written = api.report([str(runs)], models=[SMALL])
    assert written.path == runs / "report.html"
    (figure,) = context_figures(compute(open_runs([str(runs)])))
    rows = figure.table.rows
    # At best behind 512, 4,096, 16,384 and 65,536 tokens in 4 modes; the 64th measured in 2 modes,
    # and predicted from these in 2.
    best = [row for row in rows if row[2].startswith("at most")]
    assert sorted({int(row[1]) for row in best}) == [512, 4096, 16384, 65536]
    assert len(best) == 16
    assert sorted(row[0] for row in rows if row[-1] == "published") == [
        f"{DEVICE}, 15W",
        f"{DEVICE}, MAXN_SUPER",
    ]
    assert "Keys and values, MB" in figure.spec
    assert "Energy of a token, J" in figure.spec


def test_a_report_of_a_dataset_elsewhere_keeps_no_scores(runs: Path) -> None:
    with pytest.raises(UsageError, match="no scores are kept in"):
        api.report(["s3://nowhere/runs"], models=[SMALL])


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("llama-3.1-8b:Q4_K_M [decode 65536]", "llama-3… [decode 65536]"),
        ("llama-3.1-8b:Q4_K_M-and-no-stage", "llama-3.1-8b:Q4_K_M-an…"),
        ("short [decode 1]", "short [decode 1]"),
        ("x [a stage that is itself too long]", "x [a stage that is its…"),
    ],
)
def test_a_label_keeps_the_stage(text: str, short: str) -> None:
    assert shortened_label(text, 23) == short
