"""Answers damaged at random are read as the formats' own libraries read them, or are a BadAnswer.

Longer, by hand: `python -m tests.fuzz.run answers 200000`.
"""

import pytest

from servable_client.errors import BadAnswerError
from servable_client.formats import decode, load_codecs
from tests.fuzz.client_answers import MOST_CPU_SECONDS, as_answer, check, run
from tests.fuzz.worst_bodies import WORST, cost_of


def test_a_damaged_answer_is_read_as_the_reference_reads_it_or_refused() -> None:
    outcomes, faults = run(200, seed=1)
    assert faults == []
    # Some are read of every format, and some refused.
    ends = ("read", "refused")
    assert min(outcomes[f"{form} {end}"] for form in load_codecs() for end in ends) > 20


# What a client takes of an archive is bounded by what it unpacks to.
BOUNDED = ("an archive that", "an archive of", "lines", "one line", "returns")
HOSTILE = [name for name in WORST if not name.startswith(BOUNDED)]


def status(content_type: str, body: bytes) -> int:
    try:
        decode(content_type, body)
    except BadAnswerError:
        return 400
    return 200


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_an_answer_of_a_megabyte_takes_little_time_and_memory(name: str) -> None:
    content_type, _, sent = WORST[name]()
    body = as_answer(content_type, sent)
    status(content_type, b"")  # what is imported once is not counted
    cost = cost_of(lambda: status(content_type, body))
    assert cost["status"] in (200, 400)
    assert cost["cpu_seconds"] < MOST_CPU_SECONDS
    # A varint of one byte becomes eight, a string an object of Python's.
    assert cost["peak_mib"] < 8 + 80 * len(body) / 1024**2
    check(content_type, body)
