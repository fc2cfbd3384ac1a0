import socket

import pytest

from servable_local.container import ports
from servable_local.container.ports import PortError


def test_a_reserved_port_can_be_listened_on_by_who_keeps_it_alone() -> None:
    with ports.reserve_port(0) as kept, pytest.raises(PortError):
        ports.reserve_port(kept.getsockname()[1])
    with ports.reserve_port(0) as kept, ports.open_listener(kept.getsockname()[1]) as listener:
        assert listener.getsockname() == kept.getsockname()
    with ports.reserve_port(0) as kept, pytest.raises(ConnectionRefusedError):
        socket.create_connection(kept.getsockname(), timeout=5)


def test_a_port_that_is_held_is_refused_with_its_holder() -> None:
    with socket.create_server((ports.HOST, 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(
            PortError, match=rf"port {port} of 127\.0\.0\.1: .*; process \d+ uses it"
        ):
            ports.reserve_port(port)


def test_a_range_is_ports_in_a_row() -> None:
    low, kept = ports.reserve_range(4)
    found = [one.getsockname()[1] for one in kept]
    for one in kept:
        one.close()
    assert found == [low, low + 1, low + 2, low + 3]
