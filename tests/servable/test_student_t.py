"""Student's t against a table of it (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2)."""

import pytest

from servable.measured.student_t import t975

TABLE = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    9: 2.262,
    19: 2.093,
    29: 2.045,
    60: 2.000,
}


@pytest.mark.parametrize("degrees", TABLE)
def test_the_quantile_is_the_tables_within_1_percent(degrees: int) -> None:
    assert t975(degrees) == pytest.approx(TABLE[degrees], rel=0.01)
