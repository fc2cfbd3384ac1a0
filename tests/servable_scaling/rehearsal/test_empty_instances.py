"""Instances that have no copy any more, and end ten minutes later."""

import pytest

from servable_scaling.rehearsal.scenario import EMPTY_MINUTES, EmptyInstances


@pytest.mark.parametrize(("minute", "taken"), [(EMPTY_MINUTES - 1, 1), (EMPTY_MINUTES, 0)])
def test_an_instance_takes_a_copy_until_it_ends(minute: int, taken: int) -> None:
    instances = EmptyInstances(EMPTY_MINUTES)
    instances.add(1, 0)
    assert instances.take(1, minute) == taken
