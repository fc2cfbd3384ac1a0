"""The image that runs: still patched?"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from infra.catalog import images
from infra.parameters.environment import Environment
from servable.verify.deployed import Deployed
from servable.verify.difference import Difference

_STOCK = re.compile(r"/tensorflow-inference:([0-9]+\.[0-9]+)")
RULE = "image-ended"


def look(
    stack: Deployed, environment: Environment, note: Callable[[str], None]
) -> Iterator[Difference]:
    """By today's clock: what was patched when it was deployed may be no longer."""
    today = datetime.now(UTC).date().isoformat()
    uris = {
        one.properties["PrimaryContainer"]["Image"] for one in stack.of("AWS::SageMaker::Model")
    }
    for uri in sorted(map(str, uris)):
        version = _STOCK.search(uri)
        ended = images.ended(version[1], on=today) if version else None
        if version is None or ended is None:
            continue
        if reason := environment.acknowledge.get(RULE):
            note(f"patches of {uri} ended on {ended} or before; accepted: {reason}")
            continue
        yield Difference(
            kind="ended image",
            resource=uri,
            wanted=f"patched on {today}",
            found=f"patches ended on {ended} or before",
            remedy=f"set a newer tensorflow, or acknowledge.{RULE} with a reason",
        )
