"""What AWS's own services tell EventBridge: rules of the account's default bus see it."""

import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from servable_local.aws.loopback import Loopback


def tell(
    aws: Loopback,
    *,
    source: str,
    kind: str,
    detail: Mapping[str, Any],
    resources: Sequence[str],
    at: datetime,
) -> None:
    """Nothing that a rule's target does may hurt the service that tells: failures are logged."""
    try:
        aws.client("events").put_events(
            Entries=[
                {
                    "Time": at,
                    "Source": source,
                    "DetailType": kind,
                    "Detail": json.dumps(detail),
                    "Resources": list(resources),
                }
            ]
        )
    except Exception:
        print(f"EventBridge did not take {kind} of {', '.join(resources)}", file=sys.stderr)
        traceback.print_exc()
