"""The regions in which SageMaker hosts models on an instance type."""

from infra.catalog.table import table


def regions() -> tuple[str, ...]:
    """Regions in the table; nothing is known about others."""
    return tuple(table("availability")["regions"])


def without_endpoints() -> tuple[str, ...]:
    """Regions in which CloudFormation has no resource type AWS::SageMaker::Endpoint."""
    return tuple(table("availability")["without_endpoints"])


def regions_of(instance: str) -> tuple[str, ...]:
    """Regions with a hosting price for this type."""
    return tuple(table("availability")["types"].get(instance, ()))


def offered(region: str) -> tuple[str, ...]:
    """Types with a hosting price in this region, sorted."""
    types = table("availability")["types"]
    return tuple(name for name, hosted_in in types.items() if region in hosted_in)
