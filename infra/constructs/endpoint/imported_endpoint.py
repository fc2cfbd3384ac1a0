"""An existing endpoint: its callers, metrics, alarms, and dashboard."""

from collections.abc import Sequence
from dataclasses import replace

from constructs import Construct

from infra.constructs.endpoint.endpoint_base import EndpointBase
from infra.constructs.monitoring.watched_endpoint import WatchedEndpoint, WatchedVariant
from infra.policy.hosting import KINDS, EndpointKind


class ImportedEndpoint(EndpointBase):
    """An existing endpoint; `Endpoint.from_endpoint_name` and similar methods create it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        variants: Sequence[WatchedVariant | str] = (),
        components: Sequence[str] = (),
        kind: str = "real_time",
        region: str | None = None,
        account: str | None = None,
    ) -> None:
        """Import an endpoint by its name. Without `variants`, name the variant of each metric."""
        super().__init__(scope, construct_id, account=account, region=region)
        self.name = name
        place = {"region": region, "account": account}
        self._place = {key: value for key, value in place.items() if value is not None}
        kinds = {each.name: each for each in KINDS}
        if kind not in kinds:
            raise ValueError(
                f"{self.node.path}: kind: {kind!r} isn't a kind of endpoint; use one of {', '.join(kinds)}"
            )
        self._kind = kinds[kind]
        self._components = {each: f"{name}-{each}" for each in components}
        self._variants = [
            WatchedVariant(name=each) if isinstance(each, str) else each for each in variants
        ]

    @property
    def kind(self) -> EndpointKind:
        """Return the kind of the endpoint: real-time, asynchronous, or serverless."""
        return self._kind

    @property
    def watched(self) -> WatchedEndpoint:
        """Return the endpoint as alarms and dashboards use it."""
        components, names = self._components, [each.name for each in self._variants]
        shared = [
            WatchedVariant(name=name, component=component)
            for name, component in components.items()
            if name not in names
        ]
        variants = [
            replace(each, shared=bool(shared), component=components.get(each.name))
            for each in self._variants
        ]
        return WatchedEndpoint(
            name=self.name,
            region=self._place.get("region", self.stack.region),
            variants=(*variants, *shared),
            kind=self.kind,
        )
