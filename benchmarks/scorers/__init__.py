"""Parts of ``score_peer``: the tools, how one is measured, the models."""
