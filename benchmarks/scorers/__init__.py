"""Parts of ``score_peers``: the tools, how one is measured, the models."""
