import pytest

from servable_handler.settings import Settings, read_settings


def test_all_four_are_read_and_have_a_default() -> None:
    assert read_settings({}) == Settings("auto", None, False, None)
    variables = {
        "SERVABLE_TRANSPORT": "grpc",
        "SERVABLE_GRPC_FROM_BYTES": "1000",
        "SERVABLE_TIMING_HEADER": "1",
        "SERVABLE_REQUEST_TIMEOUT_SECONDS": "2",
    }
    assert read_settings(variables) == Settings("grpc", 1000, True, 2)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("SERVABLE_TRANSPORT", "http", "allowed: auto, rest, grpc"),
        ("SERVABLE_GRPC_FROM_BYTES", "-1", "allowed: a number of bytes"),
        ("SERVABLE_TIMING_HEADER", "yes", "allowed: 0 or 1"),
        (
            "SERVABLE_REQUEST_TIMEOUT_SECONDS",
            "0",
            "allowed: an integer number of seconds of at least 1",
        ),
    ],
)
def test_another_value_is_refused_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=f"{name}={value} is invalid; {allowed}"):
        read_settings({name: value})
