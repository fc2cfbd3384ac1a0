"""The machine that a variant names."""

from infra.catalog.instances import Instance
from infra.parameters.variant import Variant
from infra.policy.machine import machine


def machine_of(variant: Variant) -> Instance | None:
    """None for an unknown type, or where the file says neither type nor memory."""
    try:
        return machine(variant.instance_type, variant.serverless_memory_mib)
    except KeyError:
        return None
