"""Contention: what one processor achieves of its memory traffic while another has its own."""
