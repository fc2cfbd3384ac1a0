"""Trials of verdicts on what is known to hold, or not to: `make bench-verdicts` counts them."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from servable.conformance.command import conformance
from servable.conformance.observed_cases import cases, containers
from servable.conformance.prepare import prepare
from servable_local.container.launch import launch
from tests.conformance.deviations import DEVIATIONS, Deviation, proxy

Log = Callable[[str], None]
SOUND_RUNS = 20


def conformance_verdicts(seed: int, log: Log) -> dict[str, Any]:
    """Ask the local container without code, as it is and with each planted deviation before it."""
    (plain, *_) = containers(case for case in cases() if case.image == "2.20")
    sound: list[int] = []
    codes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        prepare([plain], Path(folder))
        archive = Path(folder) / "plain.tar.gz"
        with launch(archive, plain.variables, tensorflow=plain.image) as container:
            for name, deviation in [*[("", Deviation())] * SOUND_RUNS, *DEVIATIONS.items()]:
                with proxy(container.url, deviation) as url:
                    ran = CliRunner().invoke(conformance, ["--url", url], standalone_mode=False)
                code = 2 if ran.exception else ran.return_value  # main() ends with 2 then
                log(f"conformance: {name or 'as it is'}: {code}")
                if name:
                    codes[name] = code
                else:
                    sound.append(code)
    return {"sound": sound, "deviations": codes}
