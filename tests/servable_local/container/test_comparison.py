"""How responses are compared with the observed ones, and what is sent for each case."""

from dataclasses import replace

from servable_tensors import wire
from tests.servable_local.container.observed_cases import (
    Accepted,
    Agreement,
    ObservedAnswer,
    group_by_container,
    read_cases,
)

CASES = read_cases()
JSON = "application/json"
NUMBERS = (200, JSON, "[1.0, 2.5]")
ERROR = (400, JSON, '{"error": "no"}')


def _answer(status: int, content_type: str, text: str, **headers: str) -> ObservedAnswer:
    return ObservedAnswer(status, content_type, text.encode(), tuple(headers.items()))


def test_how_far_an_answer_agrees() -> None:
    for observed, seen, agreement in [
        (NUMBERS, NUMBERS, Agreement.EQUAL),
        (NUMBERS, (200, JSON, "[1.00000005, 2.5]"), Agreement.LAST_DIGITS),
        (NUMBERS, (200, JSON, "[1.00, 2.5]"), Agreement.DIFFERENT),
        (NUMBERS, (200, JSON, "[1.001, 2.5]"), Agreement.DIFFERENT),
        (NUMBERS, (200, JSON, "[1.0,\n 2.5]"), Agreement.DIFFERENT),
        (NUMBERS, (200, "text/csv", "[1.0, 2.5]"), Agreement.DIFFERENT),
        ((200, JSON, "[10000001]"), (200, JSON, "[10000002]"), Agreement.DIFFERENT),
        (ERROR, (400, JSON, '{"error": "not"}'), Agreement.OTHER_WORDS),
        (ERROR, (400, JSON, '{"error": ""}'), Agreement.DIFFERENT),
        (ERROR, (400, JSON, '{"why": "no"}'), Agreement.DIFFERENT),
        (ERROR, (400, JSON, "no"), Agreement.DIFFERENT),
        (ERROR, (500, JSON, '{"error": "no"}'), Agreement.DIFFERENT),
    ]:
        assert _answer(*observed).agreement(_answer(*seen)) is agreement
    allowing = _answer(405, "", "", allow="POST")
    assert allowing.agreement(_answer(405, "", "")) is Agreement.DIFFERENT


def test_arrays_agree_but_for_their_last_digits_and_messages_but_for_no_field() -> None:
    (npz,) = [one for one in CASES if one.name == "text npz npz" and one.group == "2.20 texth"]
    assert npz.answer.agreement(npz.answer) is Agreement.EQUAL

    (case,) = [one for one in CASES if one.name == "pb pb" and one.group == "2.20 handler"]
    message = wire.PredictResponse.FromString(case.answer.body)
    message.model_spec.version.value += 1
    other = replace(case.answer, body=message.SerializeToString(deterministic=True))
    assert case.answer.agreement(other) is Agreement.DIFFERENT


def test_a_difference_is_accepted_as_far_as_its_entry_says() -> None:
    case, other, *_ = CASES
    for allowed in Agreement:
        of_case, of_model = Accepted({case.key: allowed}, {}), Accepted({}, {case.model: allowed})
        for entries in (of_case, of_model):
            accepted = {each for each in Agreement if entries.accept(case, each)}
            every = set(Agreement) if allowed is Agreement.DIFFERENT else {Agreement.EQUAL, allowed}
            assert accepted == every
        assert not of_case.accept(other, Agreement.DIFFERENT)


def test_every_case_is_asked_of_one_container_with_the_attributes_of_its_group() -> None:
    assert sum(len(container.cases) for container in group_by_container(CASES)) == len(CASES)
    (case,) = [one for one in group_by_container(CASES)[0].cases if one.name == "words csv comma"]
    assert case.sent_headers["X-Amzn-SageMaker-Custom-Attributes"] == "tfs-model-name=words"

    (case,) = [one for one in CASES if one.name == "text sig attr" and one.image == "2.20"]
    sent = case.sent_headers["X-Amzn-SageMaker-Custom-Attributes"]
    assert sent == "tfs-signature-name=size,tfs-model-name=text"
