"""What torch_counts.py compares: networks, PyTorch's counts of them, exported files."""
