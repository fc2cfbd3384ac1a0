"""A port that is taken: by whom."""

import os
import socket

import psutil
import pytest

from servable_local.aws.lifecycle import describe_port_holder
from servable_local.aws.local_aws import LocalAws


def test_a_listening_process_is_named_with_its_command() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        assert describe_port_holder(listening.getsockname()[1]).startswith(
            f"process {os.getpid()} ("
        )


def test_an_embedded_aws_whose_process_is_not_shown_is_known_by_its_refusal(
    embedded: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "net_connections", lambda kind: [])
    assert describe_port_holder(embedded.port) == "a local AWS of another user"
