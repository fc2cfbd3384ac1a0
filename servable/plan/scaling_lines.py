"""What `servable check --explain` says of routing and scaling."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.policy.scaling import cooldowns, invocations_per_instance_per_minute
from infra.preflight.placement import Placement

Said = tuple[str, str, str, str]
"""Name, value, origin and reason."""


def scaling_lines(environment: Environment, one: Placement) -> Iterator[Said]:
    variant = one.variant
    if variant.serverless is None:
        yield _routing(environment, one)
    scaling = variant.scaling
    if scaling is None:
        return
    if scaling.hold:
        yield (
            "scaling",
            "on hold",
            "file",
            "the live number of instances stays, through updates too",
        )
        return
    waits = cooldowns(
        out_seconds=scaling.scale_out_cooldown_seconds,
        in_seconds=scaling.scale_in_cooldown_seconds,
        start_seconds=None if variant.serverless else one.start_seconds,
    )
    for name, seconds, stated, why in (
        (
            "scale_out_cooldown_seconds",
            waits.out_seconds,
            scaling.scale_out_cooldown_seconds,
            waits.out_reason,
        ),
        (
            "scale_in_cooldown_seconds",
            waits.in_seconds,
            scaling.scale_in_cooldown_seconds,
            waits.in_reason,
        ),
    ):
        yield (name, str(seconds), "derived" if stated is None else "file", why)
    safety = scaling.safety_factor
    if (rate := scaling.max_rps_per_instance) is not None:
        target = invocations_per_instance_per_minute(
            max_rps_per_instance=rate, safety_factor=safety
        )
        why = f"{rate:g} requests/s x {safety:g} x 60"
        yield ("target, invocations a minute", f"{target:g}", "sizing", why)
    for name, measured in (
        ("target, concurrent requests", scaling.max_concurrency_per_instance),
        ("target, waiting requests", scaling.max_backlog_per_instance),
    ):
        if measured is not None:
            yield (name, f"{measured * safety:g}", "sizing", f"{measured:g} x {safety:g}")


def _routing(environment: Environment, one: Placement) -> Said:
    if one.variant.routing is not None:
        return ("routing", one.variant.routing, "file", "from the file")
    if environment.asynchronous is not None:
        return ("routing", "-", "image", "SageMaker's own: instances take requests from the queue")
    if one.model.multi_model is not None:
        return ("routing", "-", "image", "SageMaker's own: to where the model is loaded")
    why = "no request waits behind a slow one while another instance is free"
    return ("routing", "least_outstanding_requests", "derived", why)
