"""The cases of ``memory_attacks.py``, one file a room."""
