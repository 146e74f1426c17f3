"""Not yet."""

def main(script: str, arguments: list[str]) -> int:
    """Nothing yet."""
    return 1
