"""What a benchmark measured, as the file that its part of the page is made from."""

import json
from pathlib import Path
from typing import Any

from model_packaging.beside import beside


def write(result: Path, found: dict[str, Any]) -> None:
    """Whole, or not at all."""
    with beside(result) as file:
        file.write((json.dumps(found, indent=2) + "\n").encode())
