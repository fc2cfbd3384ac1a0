"""1 instance, 2 instances."""


def counted(number: int, word: str) -> str:
    """The number with its word, in the plural where there are several."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
