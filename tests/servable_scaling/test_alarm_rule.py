"""The rule of a composite alarm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.alarm_state import AlarmRule

STATES = {"a": "ALARM", "b": "OK", "c d": "INSUFFICIENT_DATA"}


def _holds(text: str) -> bool:
    return AlarmRule(text).is_met(STATES.__getitem__)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ALARM(a)", True),
        ('ALARM("a")', True),
        ("ALARM(b)", False),
        ("OK(b)", True),
        ('INSUFFICIENT_DATA("c d")', True),
        ("NOT ALARM(a)", False),
        ("ALARM(a) AND OK(a)", False),
        ("ALARM(a) OR OK(a)", True),
        ("alarm(a) and not ok(a)", True),
        ("TRUE", True),
        ("FALSE OR (TRUE AND NOT FALSE)", True),
        ("OK(b) OR TRUE AND FALSE", True),
    ],
)
def test_a_rule_holds_or_not(text: str, wanted: bool) -> None:
    assert _holds(text) is wanted


def test_a_rule_knows_its_alarms_and_one_that_cannot_be_read_is_refused() -> None:
    assert AlarmRule('ALARM(a) AND NOT OK("c d")').names == {"a", "c d"}
    for text in [
        "",
        "ALARM()",
        "ALARM(a",
        "(TRUE",
        "TRUE FALSE",
        "AND",
        "a",
        "NOT",
        "NOT TRUE (FALSE)",
        "()",
    ]:
        with pytest.raises(ValueError, match="AlarmRule: cannot be parsed"):
            AlarmRule(text)


TREES = st.recursive(
    st.sampled_from(["TRUE", "FALSE", "ALARM(a)", "OK(a)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda t: f"({' '.join(t)})"),
        inner.map(lambda one: f"NOT {one}"),
    ),
    max_leaves=12,
)


@given(TREES)
def test_a_rule_means_what_the_same_words_mean_in_python(text: str) -> None:
    words = text.replace("ALARM(a)", "True").replace("OK(a)", "False")
    for upper, lower in {"TRUE": "True", "FALSE": "False"}.items():
        words = words.replace(upper, lower)
    words = words.replace("AND", "and").replace("OR", "or").replace("NOT", "not")
    assert _holds(text) is bool(eval(words))
