"""A sending process that sends nothing: it answers each request with what it was asked to send.

The body of the answer of target t is the request's message in JSON and its body after a newline. Two
requests are answered at a time, the later one first.
"""

import dataclasses
import json
import os
import pickle
import sys

from servable.captured.lines import RecordedAnswer
from servable.measured.measurement import Body, LoadError

SEND_LAG_MS = 3.5


def say(message: object) -> None:
    sys.stdout.buffer.write(pickle.dumps(message))
    sys.stdout.buffer.flush()


def main() -> None:
    targets, *pace = pickle.load(sys.stdin.buffer)
    plan = {"targets": [dataclasses.asdict(target) for target in targets], "pace": pace}
    if targets[0].url.endswith("/refuses"):
        say(LoadError("no credentials"))
        return
    if targets[0].url.endswith("/ends"):
        print("\n".join(f"line {number}" for number in range(12)), file=sys.stderr)
        return
    say(None)
    if targets[0].url.endswith("/ends-later"):
        os._exit(3)
    waiting: list[tuple[int, float, Body]] = []
    ended = False
    while not ended:
        received = pickle.load(sys.stdin.buffer)
        ended = received is None
        waiting += [] if ended else [received]
        for number, due, body in reversed(waiting if ended or len(waiting) == 2 else []):
            # The plan and the environment stand beside what each request says.
            shown = {"plan": plan, "variables": {"GIVEN": os.environ.get("GIVEN")}, "due": due}
            names = ("content_type", "custom_attributes", "accept", "target_model")
            shown["headers"] = {name: getattr(body, name) for name in names}
            head = json.dumps(shown).encode()
            answers = [
                RecordedAnswer(
                    body=head + b"\n" + body.content + b"!" * at,
                    content_type=f"t/{at}",
                    status=200 + at,
                    latency_ms=5.0 + at,
                )
                for at in range(len(targets))
            ]
            say((number, SEND_LAG_MS, answers))
        waiting = waiting if len(waiting) < 2 else []
    say(None)


if __name__ == "__main__":
    main()
