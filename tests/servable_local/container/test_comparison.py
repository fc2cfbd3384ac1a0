"""How responses are compared with the observed ones, and what is sent for each case."""

from dataclasses import replace

import pytest

from servable_tensors import wire
from tests.servable_local.container.observed_cases import (
    Accepted,
    Agreement,
    ObservedAnswer,
    group_by_container,
    read_accepted,
    read_cases,
)

CASES = read_cases()
ERROR = ObservedAnswer(400, "application/json", b'{"error": "no"}')


def _answer(text: str, content_type: str = "application/json") -> ObservedAnswer:
    return ObservedAnswer(200, content_type, text.encode())


@pytest.mark.parametrize(
    ("observed", "seen", "agreement"),
    [
        (_answer("[1.0, 2.5]"), _answer("[1.0, 2.5]"), Agreement.EQUAL),
        (_answer("[1.0, 2.5]"), _answer("[1.00000005, 2.5]"), Agreement.LAST_DIGITS),
        (_answer("[1.0, 2.5]"), _answer("[1.00, 2.5]"), Agreement.DIFFERENT),
        (_answer("[1.0, 2.5]"), _answer("[1.001, 2.5]"), Agreement.DIFFERENT),
        (_answer("[1.0,\n 2.5]"), _answer("[1.0, 2.5]"), Agreement.DIFFERENT),
        (_answer("[10000001]"), _answer("[10000002]"), Agreement.DIFFERENT),
        (_answer("[1.0]"), _answer("[1.0]", "text/csv"), Agreement.DIFFERENT),
        (
            ERROR,
            ObservedAnswer(400, "application/json", b'{"error": "not"}'),
            Agreement.OTHER_WORDS,
        ),
        (ERROR, ObservedAnswer(400, "application/json", b'{"error": ""}'), Agreement.DIFFERENT),
        (ERROR, ObservedAnswer(400, "application/json", b'{"why": "no"}'), Agreement.DIFFERENT),
        (ERROR, ObservedAnswer(400, "application/json", b"no"), Agreement.DIFFERENT),
        (
            ObservedAnswer(405, "", b"", (("allow", "POST"),)),
            ObservedAnswer(405, "", b""),
            Agreement.DIFFERENT,
        ),
        (ERROR, ObservedAnswer(500, "application/json", b'{"error": "no"}'), Agreement.DIFFERENT),
    ],
)
def test_how_far_an_answer_agrees(
    observed: ObservedAnswer, seen: ObservedAnswer, agreement: Agreement
) -> None:
    assert observed.agreement(seen) is agreement


def test_arrays_agree_but_for_their_last_digits_and_messages_but_for_no_field() -> None:
    (npz,) = [one for one in CASES if one.name == "text npz npz" and one.group == "2.20 texth"]
    assert npz.answer.agreement(npz.answer) is Agreement.EQUAL

    (case,) = [one for one in CASES if one.name == "pb pb" and one.group == "2.20 handler"]
    message = wire.PredictResponse.FromString(case.answer.body)
    message.model_spec.version.value += 1
    other = replace(case.answer, body=message.SerializeToString(deterministic=True))
    assert case.answer.agreement(other) is Agreement.DIFFERENT


def test_every_case_is_asked_of_one_container_with_the_attributes_of_its_group() -> None:
    assert sum(len(container.cases) for container in group_by_container(CASES)) == len(CASES)
    (case,) = [one for one in group_by_container(CASES)[0].cases if one.name == "words csv comma"]
    assert case.sent_headers["X-Amzn-SageMaker-Custom-Attributes"] == "tfs-model-name=words"

    (case,) = [one for one in CASES if one.name == "text sig attr" and one.image == "2.20"]
    sent = case.sent_headers["X-Amzn-SageMaker-Custom-Attributes"]
    assert sent == "tfs-signature-name=size,tfs-model-name=text"


@pytest.mark.parametrize(
    ("allowed", "accepted"),
    [
        (None, [Agreement.EQUAL]),
        (Agreement.LAST_DIGITS, [Agreement.EQUAL, Agreement.LAST_DIGITS]),
        (Agreement.OTHER_WORDS, [Agreement.EQUAL, Agreement.OTHER_WORDS]),
        (Agreement.DIFFERENT, list(Agreement)),
    ],
)
def test_a_difference_is_accepted_as_far_as_its_entry_says(
    allowed: Agreement | None, accepted: list[Agreement]
) -> None:
    case, other, *_ = CASES
    of_case = Accepted({} if allowed is None else {case.key: allowed}, {})
    of_model = Accepted({}, {} if allowed is None else {case.model: allowed})
    for entries in (of_case, of_model):
        assert [each for each in Agreement if entries.accept(case, each)] == accepted
    assert not of_case.accept(other, Agreement.DIFFERENT)


def test_every_entry_names_a_reason_and_an_agreement() -> None:
    accepted = read_accepted()
    assert accepted.models == {"vision": Agreement.LAST_DIGITS}
    assert set(accepted.cases.values()) == {Agreement.OTHER_WORDS, Agreement.DIFFERENT}
