"""Three language models on a board that is not here: do they fit, how many tokens a second at most.

On the board, `mansard measure --mode … --start 'llama-server -m … --port {port}'` keeps what they
really make, and for how many joules, in the same folder: then the numbers below are measured.
"""

from pathlib import Path

import polars as pl

from mansard import api

MODELS = ("llama-3.2-1b:Q4_K_M", "llama-3.2-3b:Q4_K_M", "llama-3.1-8b:Q4_K_M")
CONTEXT = 4096

for answer in api.fit(MODELS, board="orin-nano-8gb", context=CONTEXT):
    needs = f"{answer.low_bytes / 1e9:.1f} to {answer.high_bytes / 1e9:.1f} GB"
    print(f"{answer.model:22} {answer.verdict:14} {needs}")

# What its hardware allows in each of NVIDIA's modes; nothing of it was measured.
api.import_tables([], api.TableOrigin(), hardware="Orin Nano 8GB Super", runs=Path("runs"))
predicted = api.predict(
    api.PredictionRequest(
        runs=("runs",),
        networks=tuple(api.NetworkRequest(name=model) for model in MODELS),
        prompts=(512,),
        contexts=(CONTEXT,),
    )
).predictions
# A step of decode makes one token; a prefill is the time to the first.
rates = predicted.filter(pl.col("network").str.contains("decode")).with_columns(
    pl.format("{}{}", pl.when(interval="roof").then(pl.lit("≤ ")).otherwise(pl.lit("")),
              (1 / pl.col("latency_s")).round(1)).alias("tokens/s")
)  # fmt: skip
print(rates.pivot("mode", index="network", values="tokens/s"))
