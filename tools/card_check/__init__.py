"""The check of a machine with an NVIDIA card: prepare, run there, report here."""
