"""What was recorded of real clients, and the keys they signed with."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from servable_local.aws.signatures import AccessKey, AccessKeys
from servable_local.aws.signed_request import ReceivedRequest

FILE = Path(__file__).with_suffix(".jsonl")
RUN_SECRET = "recorded-secret-of-the-run"


@dataclass(frozen=True)
class Recorded:
    client: str
    request: ReceivedRequest
    body: bytes


class RecordedKeys(AccessKeys):
    """As the server had them then."""

    def __init__(self, issued: list[dict[str, Any]]) -> None:
        super().__init__(RUN_SECRET)
        self._issued = {one["id"]: AccessKey(one["account"], one["secret"]) for one in issued}

    def find(self, access_key_id: str) -> AccessKey | None:
        return self._issued.get(access_key_id) or super().find(access_key_id)


@cache
def recorded() -> tuple[RecordedKeys, list[Recorded]]:
    first, *others = (json.loads(line) for line in FILE.read_text("utf-8").splitlines())
    requests = [
        Recorded(
            one["client"],
            ReceivedRequest(
                one["method"], one["target"], [(name, value) for name, value in one["headers"]]
            ),
            _body(one["body"]),
        )
        for one in others
    ]
    return RecordedKeys(first["keys"]), requests


def body_form(body: bytes) -> dict[str, Any]:
    """A body as JSON: its text, or how many zeros it is."""
    if len(body) > 1000 and not any(body):
        return {"zeros": len(body)}
    return {"latin-1": body.decode("latin-1")}


def _body(form: dict[str, Any]) -> bytes:
    return bytes(form["zeros"]) if "zeros" in form else form["latin-1"].encode("latin-1")
