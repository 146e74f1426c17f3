"""How far are our times of a server from llama.cpp's own?

    PYTHONPATH=. python benchmarks/llm_server.py [--prompt 128,512,2048] [--threads 1]

llama.cpp's server (``make llm``) with a model of random weights, 8 layers of 512, in fp32, is
measured as by ``mansard measure --start``. Its own timings come in the last event of each answer:
``prompt_ms`` until the first token is sampled, ``predicted_ms`` from there to the last. Ours begin
where the request is sent and end where an event arrives. Each row has the medians of both and
their ratio; the exit code is 1 where one at one request at once is off by more than 3 %.

The server keeps the state of the prompt before in its memory before it times the next one: that is
1 % of a prompt of 2048 tokens. Where all cores compute, its HTTP thread waits for one of them: with
as many ``--threads`` as cores the first token comes some milliseconds later than the server says.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from mansard.analytics.models.predict.generation_times import GenerationTimes
from mansard.api.servers import measure_server
from mansard.inference.servers.plan import parse_counts
from mansard.sweeps.servers import ServerRequest
from tests.inference.tiny_language_model import write_tiny_model

_MOST = 0.03
_SIZES = {"n_layers": 8, "n_embedding": 512, "n_heads": 8, "n_inner": 1408}
_SERVER = Path(__file__).parents[1] / "tests/inference/llama_server.py"


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", default="128,512,2048")
    parser.add_argument("--generate", default="128")
    parser.add_argument("--concurrency", default="1")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--profile", default="quick")
    options = parser.parse_args()
    concurrencies = parse_counts("--concurrency", options.concurrency)
    with tempfile.TemporaryDirectory() as folder:
        model = write_tiny_model(Path(folder) / "random.gguf", **_SIZES)
        words = [sys.executable, str(_SERVER), str(model), "{port}", str(max(concurrencies))]
        request = ServerRequest(
            start=shlex.join([*words, str(options.threads)]),
            prompts=parse_counts("--prompt", options.prompt),
            generates=parse_counts("--generate", options.generate),
            concurrencies=concurrencies,
            profile=options.profile,
            runs=Path(folder) / "runs",
        )
        result = measure_server(request)
    worst = 0.0
    for one in result.measured:
        ratios = _show(one.times)
        if one.times.concurrency == 1:
            worst = max(worst, *(abs(ratio - 1) for ratio in ratios))
    sys.stdout.write(f"worst at one request at once: {worst:.1%}, at most {_MOST:.0%}\n")
    return int(worst > _MOST)


def _show(times: GenerationTimes) -> list[float]:
    """Print one row; ours over the server's, of first token and token."""
    row = f"{times.prompt_tokens} + {times.generate_tokens}, {times.concurrency} at once"
    ratios = []
    for name, ours_s, its_s in (
        ("first token", times.first_token_s, times.server_prompt_s),
        ("token", times.token_s, times.server_token_s),
    ):
        if ours_s is None or its_s is None:
            raise SystemExit(f"{row}: {name} is not known: {times.unknown}")
        ratios.append(ours_s / its_s)
        row += f"   {name} {1e3 * ours_s:.2f} ms, its own {1e3 * its_s:.2f}: {ratios[-1]:.3f}"
    sys.stdout.write(f"{row}\n")
    return ratios


if __name__ == "__main__":
    raise SystemExit(main())
