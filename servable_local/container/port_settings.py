"""The container's variables that name ports."""

from collections.abc import Mapping

PORT = "SAGEMAKER_BIND_TO_PORT"
PORT_RANGE = "SAGEMAKER_SAFE_PORT_RANGE"


class SettingsError(Exception):
    """Variables that the container, or this endpoint, does not take. A whole sentence."""


def port_of(variables: Mapping[str, str]) -> int:
    """Of the front; 0, any free one, where none is named. Raises `SettingsError`."""
    text = variables.get(PORT, "0")
    if not text.isdecimal() or int(text) > 65535:
        raise SettingsError(f"{PORT}: {text!r} is not accepted; allowed: a port up to 65535")
    return int(text)


def range_of(variables: Mapping[str, str], count: int) -> tuple[int, int] | None:
    """From which `count` model servers take theirs. Raises `SettingsError`."""
    text = variables.get(PORT_RANGE)
    if text is None:
        return None
    parts = text.split("-")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) <= 65535 for part in parts):
        raise SettingsError(f"{PORT_RANGE}: {text!r} is not accepted; allowed: LOW-HIGH")
    low, high = map(int, parts)
    # As the image counts: the range must be one longer than what is used of it.
    if low + 2 * count > high:
        raise SettingsError(
            f"{PORT_RANGE}: {text!r} has too few ports for {count} model servers; "
            f"allowed: {low}-{low + 2 * count} or longer"
        )
    return low, high
