"""The line of a TOML file that sets a key, which tomllib does not keep."""

import tomllib
from pathlib import Path
from typing import Any


def line_number(file: Path, key: str) -> int | None:
    """Return the line of a dotted key, or of the nearest table around it; None if neither is there."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):  # an option, which gave the value; a file that is no text
        return None
    line, most, header, statement, begin = None, 0, "", "", 1
    for number, part in enumerate(text.split("\n"), start=1):  # splitlines splits elsewhere, too
        statement += f"{part}\n"
        heads = statement.lstrip().startswith("[")
        try:
            values: Any = tomllib.loads(statement if heads else header + statement)
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        depth = 0
        for name in key.split("."):
            if not isinstance(values, dict) or name not in values:
                break
            values, depth = values[name], depth + 1
        if depth > most:
            line, most = begin, depth
        header = statement if heads else header
        statement, begin = "", number + 1
    return line
