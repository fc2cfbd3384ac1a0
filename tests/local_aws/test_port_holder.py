"""A port that is taken: by whom."""

import os
import socket
from pathlib import Path

import pytest

from local.aws import StartError, down, up
from local.aws.port_holder import port_holder


def test_a_listening_process_is_named_with_its_command() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        assert port_holder(listening.getsockname()[1]).startswith(f"process {os.getpid()} (")


def test_the_second_embedded_aws_on_one_port_says_that_the_first_holds_it(tmp_path: Path) -> None:
    first = up(folder=tmp_path / "first")
    try:
        with pytest.raises(StartError) as refused:
            up(folder=tmp_path / "second", port=first.port)
    finally:
        down(folder=tmp_path / "first")
    assert f"port {first.port} is held by another embedded AWS, process {first.pid}" in str(
        refused.value
    )
