"""Queues whose answers are known exactly.

Source: Kleinrock, Queueing Systems, volume 1 (1975), chapters 3 and 5.
"""

import math


def erlang_c(servers: int, offered: float) -> float:
    """The share of arrivals that must wait in M/M/c; `offered` is rate / service rate, below c."""
    term, total = 1.0, 1.0
    for number in range(1, servers):
        term *= offered / number
        total += term
    last = term * offered / servers / (1 - offered / servers)
    return last / (total + last)


def mmc_latency_above(seconds: float, *, rate: float, service_rate: float, servers: int) -> float:
    """P(waiting + service > seconds) in M/M/c, first come first served."""
    waits = erlang_c(servers, rate / service_rate)
    spare = servers * service_rate - rate
    if math.isclose(spare, service_rate):
        grown = waits * service_rate * seconds
        return (1 + grown) * math.exp(-service_rate * seconds)
    mixed = waits * service_rate / (service_rate - spare)
    return (1 - mixed) * math.exp(-service_rate * seconds) + mixed * math.exp(-spare * seconds)


def mmc_percentile_ms(percent: float, *, rate: float, service_rate: float, servers: int) -> float:
    low, high = 0.0, 1.0
    wanted = 1 - percent / 100
    while mmc_latency_above(high, rate=rate, service_rate=service_rate, servers=servers) > wanted:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        above = mmc_latency_above(middle, rate=rate, service_rate=service_rate, servers=servers)
        low, high = (middle, high) if above > wanted else (low, middle)
    return high * 1000


def mmc_highest_rate(percent: float, most_ms: float, *, service_rate: float, servers: int) -> float:
    """The highest arrival rate at which that percentile of the latency is at most `most_ms`."""
    low, high = 0.0, servers * service_rate
    for _ in range(60):
        rate = (low + high) / 2
        found = mmc_percentile_ms(percent, rate=rate, service_rate=service_rate, servers=servers)
        low, high = (rate, high) if found <= most_ms else (low, rate)
    return low


def md1_wait_seconds(*, rate: float, service_seconds: float) -> float:
    """The mean wait in M/D/1 (Pollaczek and Khinchine)."""
    busy = rate * service_seconds
    return busy * service_seconds / (2 * (1 - busy))
