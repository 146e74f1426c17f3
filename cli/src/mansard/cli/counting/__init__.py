"""Commands that count the work of networks."""
