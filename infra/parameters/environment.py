"""An environment file as one frozen value: everything that may differ between deployments."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from infra.catalog import prices as catalog
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.endpoint import (
    Asynchronous,
    Capture,
    EndpointTable,
    Network,
    Security,
    Traffic,
)
from infra.parameters.model import ModelTable
from infra.parameters.monitoring import Alarms, Metrics
from infra.parameters.replay import Replay
from infra.parameters.rollout import Rollout
from infra.parameters.scaling import Scaling
from infra.parameters.table import Name, Table
from infra.parameters.variant import Variant
from infra.policy.hosting import EndpointKind, select_kind

InstanceName = Annotated[str, Field(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$")]
Usd = Annotated[float, Field(gt=0, le=10_000)]
STATED = "the environment file"


class Prices(Table):
    """Prices without tax in US dollars, for the region of the environment. Nothing that is deployed
    depends on them, except the dashboard's graph of the cost."""

    as_of: str = Field(default="date not stated", pattern=r"^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$")
    """Date of these prices, for example 2026-11-22. `servable cost ENV --refresh` writes it."""
    instance_usd_per_hour: dict[InstanceName, Usd] = Field(default={})
    """Price of one instance per hour, by instance type. `servable cost ENV --refresh` writes those of
    the file's variants from AWS's Price List. Default: infra/catalog/prices.json, which has few
    regions."""
    serverless_usd_per_gib_second: Usd | None = None
    """Serverless: price of 1 GiB of memory for one second of answering. Default: the catalog's."""
    usd_per_gb_processed: Usd | None = None
    """Price of 1 GB of requests or answers. `servable cost ENV --refresh` writes it. Default: the
    catalog's, which has few regions."""
    provisioned_usd_per_gib_second: Usd | None = None
    """Serverless: price of 1 GiB of memory that provisioned_concurrency keeps warm for one second.
    Default: the catalog's."""

    def find_instance_price(self, name: str, region: str) -> catalog.Price | None:
        """Return the file's price of an instance type, else the catalog's, or None."""
        stated = self.instance_usd_per_hour.get(name)
        if stated is None:
            return catalog.find_price(name, region)
        return catalog.Price(name, stated, region, self.as_of, STATED)

    def find_serverless_price(self, region: str) -> catalog.ServerlessPrice | None:
        """Return the file's prices of serverless inference, else the catalog's, or None."""
        price = catalog.find_serverless_price(region)
        second, warm = self.serverless_usd_per_gib_second, self.provisioned_usd_per_gib_second
        if price is None:
            return None
        # The row's region and date are those of the price that every serverless variant pays.
        if second is not None:
            price = replace(price, region=region, as_of=self.as_of, source=STATED)
        return replace(
            price,
            usd_per_gib_second=price.usd_per_gib_second if second is None else second,
            usd_per_warm_gib_second=price.usd_per_warm_gib_second if warm is None else warm,
        )

    def find_data_price(self, region: str) -> catalog.DataPrice | None:
        """Return the file's price of data in and out, else the catalog's, or None."""
        if self.usd_per_gb_processed is None:
            return catalog.find_data_price(region)
        return catalog.DataPrice(self.usd_per_gb_processed, region, self.as_of, STATED)


# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
TagKey = Annotated[str, Field(min_length=1, max_length=128)]


class Environment(Table):
    account: str = Field(pattern=r"^[0-9]{12}$")
    """AWS account id: a string of 12 digits."""
    region: str = Field(pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$")
    """AWS region, for example eu-west-1."""
    service: str | None = Field(default=None, pattern=r"^[a-zA-Z][\-a-zA-Z0-9]{0,62}$")
    """Prefix of the stacks' names, so that two services can share an account. If omitted, stacks are
    named after the environment alone."""
    production: bool | None = None
    """Whether callers depend on this environment, so that rules about redundancy apply. Default: true
    if the file's name begins with prod."""
    endpoint: EndpointTable
    """The endpoint's name, logs, keys and callers. Without [variants.NAME] there is no endpoint: name, logs
    and keys are those of the batches, and the table may be omitted."""
    models: dict[Name, ModelTable]
    """The models that are served, by name."""
    variants: dict[Name, Variant] = Field(default={})
    """The production variants, by name: instances or serverless containers, each with one model. None makes
    an environment of [batch.NAME] alone, without an endpoint."""
    batch: dict[Name, BatchSettings] = Field(default={})
    """Batch transform jobs, by name: a model over a table in S3, at a time or by hand."""
    traffic: Traffic = Traffic()
    """The requests that callers send, as far as they are known."""
    alarms: Alarms = Alarms()
    """Alarm thresholds, and who is notified."""
    metrics: Metrics = Metrics()
    """The metrics that SageMaker publishes, and how often."""
    prices: Prices = Prices()
    """The prices that the account pays, where they differ from the catalog's or it has none."""
    rollout: Rollout | None = None
    """Replacement of the live fleet by an update. Default: SageMaker's own, which is all at once without
    bake and rollback."""
    network: Network = Network()
    """The VPC of the instances. Default: SageMaker's own network."""
    capture: Capture | None = None
    """Samples of requests and answers that are kept in S3. Default: none."""
    replay: Replay = Replay()
    """Captured requests that are replayed, and how far answers may differ."""
    asynchronous: Asynchronous | None = None
    """Asynchronous inference: requests wait in a queue and answers go to S3. If omitted, the endpoint
    answers at once."""
    security: Security = Security()
    """Requirements without which this environment is not deployed."""
    acknowledge: dict[str, Annotated[str, Field(min_length=10)]] = Field(default={})
    """Findings that are accepted on purpose: rule = reason, with at least ten characters; "rule:file" =
    reason where the finding says so."""
    tags: dict[TagKey, Annotated[str, Field(max_length=256)]] = Field(default={})
    """AWS tags of every resource that takes tags."""

    @property
    def kind(self) -> EndpointKind:
        return select_kind(
            queued=self.asynchronous is not None,
            has_instances=all(variant.serverless is None for variant in self.variants.values()),
            copies=any(variant.has_copies for variant in self.variants.values()),
        )

    @property
    def window_minutes(self) -> int:
        """Return alarms.window_minutes, rounded up to the publish interval of [metrics]."""
        return self.metrics.find_intervals(self.kind).round_up_window(self.alarms.window_minutes)

    @property
    def variants_by_table(self) -> dict[str, Variant]:
        """Return by name each variant, and by NAME.components.X its narrowing to each component."""
        found = {}
        for name, variant in self.variants.items():
            if not variant.components:
                found[name] = variant
            for component in variant.components:
                found[f"{name}.components.{component}"] = variant.for_component(component)
        return found

    @property
    def serving_variants(self) -> dict[str, Variant]:
        """Return each variant or component that serves a model, by the last name of its table."""
        return {key.rpartition(".")[2]: variant for key, variant in self.variants_by_table.items()}

    @property
    def scaling_tables(self) -> dict[str, Scaling]:
        """Return by name the scaling table of each serving variant with a scalable target."""
        return {
            name: variant.scaling or Scaling()
            for name, variant in self.serving_variants.items()
            if variant.is_scaled
        }

    @property
    def components(self) -> dict[str, str]:
        """Return by name in `serving_variants` the inference component that requests name, if any.

        Its name is unique in account and Region, as the endpoint's name is.
        """
        return {
            name: f"{self.endpoint.name}-{name}"
            for name, variant in self.serving_variants.items()
            if variant.has_copies
        }

    @property
    def acknowledged_request_bytes(self) -> int | None:
        """Return the largest request in bytes if it is acknowledged to exceed the API's limit."""
        size = self.traffic.request_bytes or 0
        more = self.kind.request_bytes < size and "request-too-large" in self.acknowledge
        return size if more else None

    @property
    def kms_keys(self) -> dict[str, list[str]]:
        """Return a dict from each dotted key for KMS keys to the keys that it names, if any."""
        given: dict[str, str | None] = {
            "endpoint.volume_kms_key": self.endpoint.volume_kms_key,
            "endpoint.log_kms_key": self.endpoint.log_kms_key,
            "alarms.topic_kms_key": self.alarms.topic_kms_key,
        }
        tables = {
            **{f"models.{name}.artifact": each.artifact for name, each in self.models.items()},
            **{f"variants.{name}.core_dumps": e.core_dumps for name, e in self.variants.items()},
            "capture": self.capture,
            "asynchronous": self.asynchronous,
        }
        given |= {f"{key}.kms_key": table.kms_key for key, table in tables.items() if table}
        for name, batch in self.batch.items():
            given[f"batch.{name}.output_kms_key"] = batch.output_kms_key
            if batch.input_kms_key is not None:  # what is there already is its owner's to encrypt
                given[f"batch.{name}.input_kms_key"] = batch.input_kms_key
        keys = {key: [] if arn is None else [arn] for key, arn in given.items()}
        if any(model.artifact is None for model in self.models.values()):
            keys["endpoint.archive_kms_keys"] = self.endpoint.archive_kms_keys
        return keys

    @property
    def production_variants(self) -> dict[str, Variant]:
        """Return the variants whose responses reach callers: all except shadow variants."""
        return {name: variant for name, variant in self.variants.items() if not variant.shadow}

    def compute_share(self, name: str) -> float | None:
        """Compute the variant's share of the callers' requests; None without weights, or for a component."""
        total = sum(variant.weight for variant in self.production_variants.values())
        return self.variants[name].weight / total if total and name in self.variants else None


def build_stack_name(name: str, environment: Environment, kind: str) -> str:
    """Build a stack's name as CDK would: SERVICE-NAME-KIND. `kind` is endpoint or data."""
    return "-".join(filter(None, (environment.service, name, kind)))
