"""Graphics cards: their power limits and locked clocks, read, set and put back by NVML."""
