"""A copy of a live endpoint's variant, on an instance of its own, for as long as it is measured.

    endpoints = TemporaryEndpoints(client, budget_usd=5.0, usd_per_hour=price_of)
    endpoints.sweep()
    with endpoints.like("ranker-prod", instance_type="ml.c5.4xlarge", variables={…}) as name:
        …

Model, image, archive, role and network are those of the live variant; nothing of it is changed.
"""

import dataclasses
import datetime
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import TypeAdapter

from infra.catalog.instances import instances
from model_packaging.beside import write_beside
from servable.load.temporary.removal import (
    PREFIX,
    remove_config,
    remove_endpoint,
    remove_model,
    sweep,
    tags,
)

_MODEL_KEYS = ("PrimaryContainer", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation")
# Left out, SageMaker would also collect OpenTelemetry metrics:
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-detailed-observability-getting-started.html
# (read 2026-11-22)
_NO_METRICS_CONFIG = {"EnableDetailedObservability": False}
_VARIANT_KEYS = (
    "VariantName",
    "InstanceType",
    "VolumeSizeInGB",
    "ModelDataDownloadTimeoutInSeconds",
    "ContainerStartupHealthCheckTimeoutInSeconds",
    "InferenceAmiVersion",
)


class TemporaryError(Exception):
    """A temporary endpoint cannot be used. `str()` is a whole sentence."""


@dataclass(frozen=True, kw_only=True)
class LiveVariant:
    """`model` and `config` as the requests that make them have them."""

    model: dict[str, Any]
    config: dict[str, Any]
    metrics: dict[str, Any]
    """MetricsConfig of its endpoint configuration: what is published is the same of the copy."""

    @property
    def variables(self) -> dict[str, str]:
        return dict(self.model["PrimaryContainer"].get("Environment", {}))

    @property
    def archive(self) -> str | None:
        """S3 address of the model's archive."""
        url = self.model["PrimaryContainer"].get("ModelDataUrl")
        return None if url is None else str(url)

    def fits(self, instance_type: str) -> None:
        """Refuse a change between CPU and GPU: the copy keeps image and driver. Raises TemporaryError."""
        live, known = self.config["InstanceType"], instances()
        if {live, instance_type} <= set(known):
            has, wants = known[live].device, known[instance_type].device
            if has != wants:
                raise TemporaryError(
                    f"{instance_type}: is {wants}, and the live variant's image, on {live}, is for "
                    f"{has}; deploy it on {instance_type} first"
                )


def live_variant(client: Any, live: str, variant: str | None = None) -> LiveVariant:
    """Return a live variant; `variant` None: the first. Raises TemporaryError."""
    try:
        described = client.describe_endpoint(EndpointName=live)
        endpoint_config = client.describe_endpoint_config(
            EndpointConfigName=described["EndpointConfigName"]
        )
        variants = {
            production["VariantName"]: production
            for production in endpoint_config["ProductionVariants"]
        }
        chosen = variants.get(variant or next(iter(variants)))
        if chosen is None:
            allowed = ", ".join(variants)
            raise TemporaryError(f"{live}: has no variant {variant!r}; allowed: {allowed}")
        if "ModelName" not in chosen:
            raise TemporaryError(
                f"{live}: hosts inference components, which are not copied: measure a model "
                "of them in an environment of its own"
            )
        model = client.describe_model(ModelName=chosen["ModelName"])
    except (BotoCoreError, ClientError) as error:
        raise TemporaryError(
            f"{live}: cannot be copied: {error}; deploy it first, or look at the "
            "credentials: `aws sts get-caller-identity`"
        ) from None
    if "InstanceType" not in chosen or "PrimaryContainer" not in model:
        if "InstancePools" in chosen:
            problem = "has instance_pools: measure one of its types in an environment of its own"
            raise TemporaryError(f"{live}: {problem}")
        raise TemporaryError(f"{live}: only one container on instances can be copied")
    return LiveVariant(
        model={key: model[key] for key in _MODEL_KEYS if key in model},
        config={key: chosen[key] for key in _VARIANT_KEYS if key in chosen},
        metrics=endpoint_config.get("MetricsConfig", _NO_METRICS_CONFIG),
    )


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One endpoint, from the request to make it until it was gone. Seconds since 1970."""

    name: str
    usd_per_hour: float
    began: float
    ended: float | None = None

    def usd(self, now: float) -> float:
        end = now if self.ended is None else self.ended
        return max(0.0, end - self.began) / 3600 * self.usd_per_hour


_FORM = TypeAdapter(list[LedgerEntry])


class Ledger:
    """Costs of temporary endpoints, in a file that survives a kill -9; an entry without an end costs on.

    `file` None: of this run alone.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries = _FORM.validate_json(file.read_bytes()) if file and file.exists() else []

    @property
    def usd(self) -> float:
        """No less than is billed."""
        now = time.time()
        return sum(entry.usd(now) for entry in self._entries)

    def begin(self, name: str, usd_per_hour: float) -> None:
        """Record an endpoint before it is created, so that a kill in the next moment leaves its entry."""
        self._entries.append(LedgerEntry(name=name, usd_per_hour=usd_per_hour, began=time.time()))
        self._write()

    def end(self, name: str | None = None) -> None:
        """Record that an endpoint is gone. None: all are, those of earlier runs included."""
        self._entries = [
            dataclasses.replace(entry, ended=time.time())
            if entry.ended is None and name in (None, entry.name)
            else entry
            for entry in self._entries
        ]
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            write_beside(self._file, _FORM.dump_json(self._entries, indent=1))


# An endpoint needs minutes to be made and to be deleted; less is spent on nothing.
_LEAST_SECONDS = 600.0
# Deleting takes so long, and costs meanwhile.
_DELETING_SECONDS = 180.0
_POLL_SECONDS = 5.0


class BudgetSpentError(TemporaryError):
    """The rest of the budget is too small for another endpoint."""


class NotInServiceError(TemporaryError):
    """The endpoint was created and does not start."""


class TemporaryEndpoints:
    def __init__(
        self,
        client: Any,
        *,
        budget_usd: float,
        usd_per_hour: Callable[[str], float | None],
        poll_seconds: float = _POLL_SECONDS,
        ledger: Ledger | None = None,
        told: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`client`: of boto3, for "sagemaker". `usd_per_hour` of an instance type; None: unknown.

        `ledger`: what earlier runs spent of the same budget; left out, nothing. `told`: what takes
        minutes.
        """
        self._client = client
        self._budget_usd = budget_usd
        self._usd_per_hour = usd_per_hour
        self._poll_seconds = poll_seconds
        self._ledger = ledger or Ledger()
        self._told = told
        self.ended_by_budget = False

    @property
    def spent_usd(self) -> float:
        """US dollars from the creation's request to the deletion: at least what is billed."""
        return self._ledger.usd

    def sweep(self) -> list[str]:
        """Delete what earlier runs left behind, and return its names."""
        removed = sweep(self._client)
        self._ledger.end()
        for name in removed:
            self._told(f"removed, left by an earlier run: {name}")
        return removed

    @contextmanager
    def like(
        self,
        live: str | LiveVariant,
        *,
        variant: str | None = None,
        instance_type: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Iterator[str]:
        """Yield the name of an endpoint in service; deleted when the block ends, or the budget.

        `live`: its name, or what it was when somebody looked: a deployment since then changes nothing.
        Left out: the first variant, its own instance type, its own variables.
        Raises TemporaryError, and BudgetSpent before anything is made.
        """
        source = live_variant(self._client, live, variant) if isinstance(live, str) else live
        model, config = dict(source.model), dict(source.config)
        if instance_type:
            source.fits(instance_type)
            config["InstanceType"] = instance_type
        if variables is not None:
            container = {**model["PrimaryContainer"], "Environment": dict(variables)}
            model["PrimaryContainer"] = container
        price = self._usd_per_hour(config["InstanceType"])
        if price is None:
            raise TemporaryError(
                f"{config['InstanceType']}: its price is not known, so no budget can be held; "
                "write it into prices.instance_usd_per_hour"
            )
        seconds = (self._budget_usd - self.spent_usd) / price * 3600
        if seconds < _LEAST_SECONDS:
            raise BudgetSpentError(
                f"{self._budget_usd - self.spent_usd:.2f} $ of {self._budget_usd:.2f} $ are left, "
                f"{config['InstanceType']} needs {price * _LEAST_SECONDS / 3600:.2f} $ at least; "
                "give more with --dollars"
            )
        name = f"{PREFIX}{secrets.token_hex(6)}"
        marks = tags(datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds))
        with ExitStack() as held:
            self._make(held, name, model, config, source.metrics, marks, price)
            guard = threading.Timer(max(1.0, seconds - _DELETING_SECONDS), self._end, [name])
            guard.daemon = True
            guard.start()
            held.callback(guard.cancel)
            self._wait(name)
            yield name

    def _make(
        self,
        held: ExitStack,
        name: str,
        model: dict[str, Any],
        config: dict[str, Any],
        metrics: Mapping[str, Any],
        marks: Mapping[str, str],
        usd_per_hour: float,
    ) -> None:
        """Create all; each is deleted again, in the opposite order, also if its creation was interrupted."""
        tags_ = [{"Key": key, "Value": value} for key, value in marks.items()]
        client = self._client
        try:
            held.callback(remove_model, client, name)
            client.create_model(ModelName=name, Tags=tags_, **model)
            held.callback(remove_config, client, name)
            production_variant = config | {
                "ModelName": name,
                "InitialInstanceCount": 1,
                "InitialVariantWeight": 1,
            }
            client.create_endpoint_config(
                EndpointConfigName=name,
                ProductionVariants=[production_variant],
                MetricsConfig=metrics,
                Tags=tags_,
            )
            self._ledger.begin(name, usd_per_hour)
            held.callback(self._remove, name)
            client.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=tags_)
        except ClientError as error:
            raise TemporaryError(f"{name}: cannot be made: {error}") from None

    def _wait(self, name: str) -> None:
        while True:
            described = self._client.describe_endpoint(EndpointName=name)
            status = described["EndpointStatus"]
            if status == "InService":
                return
            if status not in ("Creating", "Updating", "SystemUpdating"):
                why = described.get("FailureReason", "no reason is given")
                raise NotInServiceError(f"{name}: is {status}: {why}")
            time.sleep(self._poll_seconds)

    def _remove(self, name: str) -> None:
        """Delete the endpoint; one that is not deleted costs on."""
        # Where nobody listens any more it is deleted all the same.
        with suppress(OSError):
            self._told(
                f"deleting {name}, which takes some minutes; if interrupted, it stays and costs"
            )
        remove_endpoint(self._client, name)
        self._ledger.end(name)

    def _end(self, name: str) -> None:
        """Delete the endpoint at the end of the budget: a measurement sees errors from now on."""
        self.ended_by_budget = True
        # Whoever leaves the block deletes it too, and says why not.
        with suppress(BotoCoreError, ClientError, TimeoutError):
            remove_endpoint(self._client, name)


@contextmanager
def explained(live: str) -> Iterator[None]:
    """Turn AWS's errors about a copy of `live` into a TemporaryError."""
    try:
        yield
    except (ClientError, BotoCoreError, TimeoutError) as error:
        raise TemporaryError(
            f"{live}: {error}; if an endpoint named {PREFIX}… is left, the next run removes it"
        ) from None
