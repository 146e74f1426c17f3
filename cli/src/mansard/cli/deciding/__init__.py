"""Commands that predict and decide."""
