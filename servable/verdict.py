"""The three verdicts in `--json` and the exit code of each (docs/reference/commands.md)."""

from collections.abc import Mapping
from typing import Literal

Verdict = Literal["holds", "does not hold", "cannot be told"]
EXIT_CODES: Mapping[Verdict, int] = {"holds": 0, "does not hold": 1, "cannot be told": 3}
VERDICTS: Mapping[int, Verdict] = {code: verdict for verdict, code in EXIT_CODES.items()}
