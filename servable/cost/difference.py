"""What a change costs, in one line."""

from servable.cost.run import Cost
from servable.cost.variant_cost import UNKNOWN, Which

_WORDS: tuple[tuple[Which, str], ...] = (
    ("min_instances", "min"),
    ("max_instances", "max"),
    ("max_during_update", "max while it updates"),
)


def difference(now: Cost, then: Cost) -> str:
    """ "+$412/month at min, +$824/month at max, p99 objective 120 -> 80 ms" """
    said = [
        f"{_signed(now.usd_per_month(which), then.usd_per_month(which))}/month at {word}"
        for which, word in _WORDS
    ]
    if now.p99_latency_ms != then.p99_latency_ms:
        before, after = (_ms(one.p99_latency_ms) for one in (then, now))
        said.append(f"p99 objective {before} -> {after} ms")
    if now.paid_by_use or then.paid_by_use:
        said.append("serverless is paid by use: nothing at min, every container busy at max")
    unknown = sorted({*now.unknown, *then.unknown})
    if unknown:
        said.append(f"without {', '.join(unknown)}: {UNKNOWN}")
    return ", ".join(said)


def _signed(now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return "unknown"
    whole = round(now - then)
    return f"{'-' if whole < 0 else '+'}${abs(whole):,}"


def _ms(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
