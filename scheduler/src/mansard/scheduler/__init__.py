"""Networks' layer groups and accelerators go in, a provably best schedule comes out."""
