"""A sending process that sends nothing: it answers each request with what it was asked to send.

The body of the answer of target t is the request's message in JSON and its body after a newline. Two
requests are answered at a time, the later one first.
"""

import json
import os
import sys
from typing import Any

from servable.replay.frames import build_frame, read_frame

SEND_LAG_MS = 3.5


def say(message: dict[str, Any], *bodies: bytes) -> None:
    sys.stdout.buffer.write(build_frame(message, *bodies))
    sys.stdout.buffer.flush()


def answer(message: dict[str, Any], body: bytes, count: int) -> None:
    bodies = [json.dumps(message).encode() + b"\n" + body + b"!" * at for at in range(count)]
    answers = [
        {"status": 200 + at, "contentType": f"t/{at}", "ms": 5.0 + at, "error": "", "bytes": len(b)}
        for at, b in enumerate(bodies)
    ]
    say(
        {"answered": {"number": message["number"], "lagMs": SEND_LAG_MS, "answers": answers}},
        *bodies,
    )


def main() -> None:
    first = read_frame(sys.stdin.buffer)
    assert first is not None
    plan = first[0]["plan"]
    (url, *_) = [target["url"] for target in plan["targets"]]
    if url.endswith("/refuses"):
        say({"error": "no credentials"})
        return
    if url.endswith("/ends"):
        print("\n".join(f"line {number}" for number in range(12)), file=sys.stderr)
        return
    say({"ready": True})
    if url.endswith("/ends-later"):
        os._exit(3)
    waiting: list[tuple[dict[str, Any], bytes]] = []
    while (received := read_frame(sys.stdin.buffer)) is not None:
        ended = "end" in received[0]
        if not ended:
            # The plan and the environment stand beside what each request says.
            shown = {"plan": plan, "variables": {"GIVEN": os.environ.get("GIVEN")}}
            waiting.append((received[0] | shown, received[1]))
        if ended or len(waiting) == 2:
            for message, body in reversed(waiting):
                answer(message, body, len(plan["targets"]))
            waiting = []
        if ended:
            say({"ended": True})


if __name__ == "__main__":
    main()
