"""Ports of 127.0.0.1: finding free ones, reserving them, and describing who holds one."""

import contextlib
import random
import socket
import textwrap

import psutil

HOST = "127.0.0.1"
# Below the kernel's ephemeral range (32768 up), so that no outgoing connection takes one.
_LOWEST, _HIGHEST = 15_000, 32_000


class PortError(Exception):
    """An unavailable port. `str()` is a whole sentence with the process that holds it."""


def open_listener(port: int) -> socket.socket:
    """Open a listening socket. Raises `OSError`."""
    listener = _create_socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(512)  # a load test opens its connections all at once
    return listener


def reserve_port(port: int) -> socket.socket:
    """Reserve the port for this process and its children that listen on it, while they restart.

    The socket is bound and doesn't listen: connections to it are refused, and no other process
    gets the port. 0 is any free port. Raises `PortError`.
    """
    try:
        # Without SO_REUSEPORT first, which notices another local container's reservation.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            port = probe.getsockname()[1]
        holder = _create_socket()
        holder.bind((HOST, port))
    except OSError as error:
        raise PortError(
            f"port {port} of {HOST}: {error.strerror or error}{describe_holder(port)}"
        ) from None
    return holder


def reserve_range(count: int) -> tuple[int, list[socket.socket]]:
    """Reserve `count` free ports in a row; return the lowest and the sockets. Raises `PortError`."""
    for _ in range(200):
        low = random.SystemRandom().randrange(_LOWEST, _HIGHEST - count)
        kept: list[socket.socket] = []
        try:
            kept += [reserve_port(low + number) for number in range(count)]
            return low, kept
        except PortError:
            for holder in kept:
                holder.close()
    between = f"between {_LOWEST} and {_HIGHEST}"
    raise PortError(f"found no {count} consecutive free ports {between}; free some")


def _create_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if hasattr(socket, "SO_REUSEPORT"):  # else a child could not listen on what is reserved
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return sock


def describe_holder(port: int) -> str:
    """Describe the process that holds the port, as far as this user may see it."""
    with contextlib.suppress(psutil.Error, OSError):  # another user's
        for connection in psutil.net_connections("tcp4"):
            if connection.laddr and connection.laddr.port == port and connection.pid:
                process = psutil.Process(connection.pid)
                words = process.cmdline()
                local = any(word.startswith("servable_local.container") for word in words)
                # As much of a command line as tells which program it is.
                shown = textwrap.shorten(" ".join(words), 80) or process.name()
                return (
                    f"; process {process.pid} uses it ({'a local container' if local else shown}); "
                    "choose a different port, or stop that process"
                )
    return "; another process uses it; choose a different port, or stop that process"
