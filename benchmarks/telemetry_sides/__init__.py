"""What benchmarks/telemetry.py compares: made-up logs and the parsers that read them."""
