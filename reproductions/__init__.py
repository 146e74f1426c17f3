"""What others published or wrote, repeated with Mansard: run from a checkout, not installed."""
