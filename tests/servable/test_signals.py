"""Which signals end a command as Ctrl-C does."""

import signal
from collections.abc import Iterator

import pytest

from servable.signals import as_ctrl_c

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in ENDING]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_it_ends_as_ctrl_c_does(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    as_ctrl_c()
    assert signal.getsignal(number) is signal.default_int_handler


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    as_ctrl_c()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
