"""A port that is taken: by whom."""

import os
import socket

from local.aws.port_holder import port_holder


def test_a_listening_process_is_named_with_its_command() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        assert port_holder(listening.getsockname()[1]).startswith(f"process {os.getpid()} (")
