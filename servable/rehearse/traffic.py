"""Where the requests of the rehearsed day come from: options, or what the file states in [traffic]."""

from pathlib import Path

import click

from infra.parameters.loading import Loaded
from infra.parameters.rehearsal_scenario import stated_day
from servable_scaling.rehearsal.traffic import (
    BASE_SHARE,
    PROFILES,
    TrafficError,
    from_file,
    profile,
)


def day_of(
    loaded: Loaded,
    *,
    file: Path | None,
    shape: str | None,
    peak_rps: float | None,
    base_rps: float | None,
) -> list[float]:
    """Requests by the minute. Raises UsageError, ClickException."""
    assert loaded.environment is not None  # it has loaded
    if file is not None and shape is not None:
        raise click.UsageError("--traffic and --profile are two days: give one")
    try:
        if file is not None:
            return from_file(file)
        if shape is not None:
            return _shaped(loaded, shape, peak_rps, base_rps)
        stated = stated_day(loaded.environment, loaded.root)
    except (TrafficError, OSError) as wrong:
        raise click.ClickException(str(wrong)) from None
    if stated is None:
        shapes = "|".join(PROFILES)
        raise click.UsageError(
            f"give either --traffic FILE or --profile {shapes}; or write profile and peak_rps into "
            f"[traffic] of {loaded.file}"
        )
    return stated


def _shaped(
    loaded: Loaded, shape: str, peak_rps: float | None, base_rps: float | None
) -> list[float]:
    assert loaded.environment is not None  # it has loaded
    known = loaded.environment.traffic
    peak = peak_rps or known.peak_rps
    if peak is None:
        raise click.UsageError("--profile needs --peak-rps, or peak_rps in [traffic] of the file")
    given = (base_rps, known.quiet_rps, BASE_SHARE * peak)
    base = next(rps for rps in given if rps is not None)
    if base > peak:
        raise click.UsageError(f"--base-rps {base:g} is above the peak, {peak:g} requests/s")
    return profile(shape, peak_rps=peak, base_rps=base)
