"""A copy of a deployed endpoint's variant, on its own instance, while it is measured.

    endpoints = TemporaryEndpoints(client, budget_usd=5.0, usd_per_hour=find_price)
    endpoints.sweep()
    with endpoints.run_copy("ranker-prod", instance_type="ml.c5.4xlarge", variables={…}) as name:
        …

The copy has the model, image, archive, role, and network of the deployed variant, which isn't
changed.
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

from infra.catalog.instances import load_instances
from model_packaging.beside import write_atomically
from servable.load.temporary.removal import (
    PREFIX,
    build_tags,
    remove_config,
    remove_endpoint,
    remove_model,
    sweep,
)

_MODEL_KEYS = ("PrimaryContainer", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation")
# Without it, SageMaker would also collect OpenTelemetry metrics:
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-detailed-observability-getting-started.html
# (read 2026-11-22)
_NO_METRICS_CONFIG = {"EnableDetailedObservability": False}
_VARIANT_KEYS = (
    "VariantName", "InstanceType", "VolumeSizeInGB", "ModelDataDownloadTimeoutInSeconds",
    "ContainerStartupHealthCheckTimeoutInSeconds", "InferenceAmiVersion",
)  # fmt: skip


class TemporaryError(Exception):
    """A temporary endpoint cannot be used. `str()` is a complete sentence."""


class BudgetSpentError(TemporaryError):
    """The remaining budget is too small for another endpoint."""


class NotInServiceError(TemporaryError):
    """The endpoint was created but doesn't start."""


@dataclass(frozen=True, kw_only=True)
class LiveVariant:
    """A variant as in the requests that create it.

    `metrics`: the MetricsConfig of its endpoint configuration.
    """

    model: dict[str, Any]
    config: dict[str, Any]
    metrics: dict[str, Any]

    @property
    def variables(self) -> dict[str, str]:
        return dict(self.model["PrimaryContainer"].get("Environment", {}))

    @property
    def archive(self) -> str | None:
        """Return the S3 URI of the model's archive; None if the variant has none."""
        url = self.model["PrimaryContainer"].get("ModelDataUrl")
        return None if url is None else str(url)

    def check_instance_type(self, instance_type: str) -> None:
        """Raise TemporaryError if the instance type changes between CPU and GPU.

        The copy keeps the image and the driver.
        """
        live, known = self.config["InstanceType"], load_instances()
        has, wants = (
            known[name].device if name in known else None for name in (live, instance_type)
        )
        if has and wants and has != wants:
            raise TemporaryError(
                f"{instance_type}: is {wants}, and the live variant's image, on {live}, is for {has}; "
                f"deploy it on {instance_type} first"
            )


def read_live_variant(client: Any, live: str, variant: str | None = None) -> LiveVariant:
    """Return a variant of a deployed endpoint. Raises TemporaryError. `variant` None: the first variant."""
    try:
        name = client.describe_endpoint(EndpointName=live)["EndpointConfigName"]
        config = client.describe_endpoint_config(EndpointConfigName=name)
        variants = {each["VariantName"]: each for each in config["ProductionVariants"]}
        chosen = variants.get(variant or next(iter(variants)))
        if chosen is None:
            allowed = ", ".join(variants)
            raise TemporaryError(f"{live}: has no variant {variant!r}; allowed: {allowed}")
        if "ModelName" not in chosen:
            raise TemporaryError(
                f"{live}: hosts inference components, which are not copied: measure a model of them in an "
                "environment of its own"
            )
        model = client.describe_model(ModelName=chosen["ModelName"])
    except (BotoCoreError, ClientError) as error:
        raise TemporaryError(
            f"{live}: cannot be copied: {error}; deploy it first, or check the credentials: "
            "`aws sts get-caller-identity`"
        ) from None
    if "InstancePools" in chosen:
        problem = "has instance_pools: measure one of its types in an environment of its own"
        raise TemporaryError(f"{live}: {problem}")
    if "InstanceType" not in chosen or "PrimaryContainer" not in model:
        raise TemporaryError(f"{live}: only one container on instances can be copied")
    return LiveVariant(
        model={key: model[key] for key in _MODEL_KEYS if key in model},
        config={key: chosen[key] for key in _VARIANT_KEYS if key in chosen},
        metrics=config.get("MetricsConfig", _NO_METRICS_CONFIG),
    )


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """An endpoint, from the request to create it until its deletion. Times are seconds since 1970."""

    name: str
    usd_per_hour: float
    began: float
    ended: float | None = None


_FORM = TypeAdapter(list[LedgerEntry])


class Ledger:
    """The costs of temporary endpoints, in a file that survives a kill -9.

    `file` None: only the costs of this run.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries = _FORM.validate_json(file.read_bytes()) if file and file.exists() else []

    @property
    def usd(self) -> float:
        """Return US dollars: at least what is billed. An entry without an end still incurs costs."""
        now = time.time()
        return sum(
            max(0.0, (now if entry.ended is None else entry.ended) - entry.began)
            * (entry.usd_per_hour / 3600)
            for entry in self._entries
        )

    def record_start(self, name: str, usd_per_hour: float) -> None:
        """Record an endpoint before it is created. A kill right afterwards then leaves its entry."""
        self._entries.append(LedgerEntry(name=name, usd_per_hour=usd_per_hour, began=time.time()))
        self._write()

    def record_end(self, name: str | None = None) -> None:
        """Record that an endpoint is deleted.

        `name` None: all endpoints are deleted, including those of earlier runs.
        """
        for number, entry in enumerate(self._entries):
            if entry.ended is None and name in (None, entry.name):
                self._entries[number] = dataclasses.replace(entry, ended=time.time())
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            write_atomically(self._file, _FORM.dump_json(self._entries, indent=1))


# Creating and deleting an endpoint takes minutes; a shorter time would be paid for nothing.
_LEAST_SECONDS = 600.0
# Deleting takes so long, and costs meanwhile.
_DELETING_SECONDS = 180.0


class TemporaryEndpoints:
    def __init__(
        self,
        client: Any,
        *,
        budget_usd: float,
        usd_per_hour: Callable[[str], float | None],
        poll_seconds: float = 5.0,
        ledger: Ledger | None = None,
        told: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Prepare to create endpoints within the budget.

        `client`: boto3's client for "sagemaker". `usd_per_hour`: returns the price of an instance
        type; None: unknown. `ledger`: what earlier runs spent of the same budget. `told` is
        called with a line before an operation that takes minutes.
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
        """Return the cost in US dollars: at least what is billed.

        It counts from the request to create an endpoint until its deletion.
        """
        return self._ledger.usd

    def sweep(self) -> list[str]:
        """Delete the resources that earlier runs left behind, and return their names."""
        removed = sweep(self._client)
        self._ledger.record_end()
        for name in removed:
            self._told(f"removed, left by an earlier run: {name}")
        return removed

    @contextmanager
    def run_copy(
        self,
        live: str | LiveVariant,
        *,
        variant: str | None = None,
        instance_type: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Iterator[str]:
        """Yield the name of a copy of an endpoint, in service.

        The copy is deleted when the block or the budget ends.

        `live`: the endpoint's name, or a LiveVariant that was read earlier and that later
        deployments don't change. Defaults: the first variant, its instance type, its variables.

        Raises TemporaryError, and BudgetSpentError before anything is created.
        """
        source = read_live_variant(self._client, live, variant) if isinstance(live, str) else live
        model, config = dict(source.model), dict(source.config)
        if instance_type:
            source.check_instance_type(instance_type)
            config["InstanceType"] = instance_type
        if variables is not None:
            model["PrimaryContainer"] = {
                **model["PrimaryContainer"],
                "Environment": dict(variables),
            }
        price, seconds = self._compute_seconds(config["InstanceType"])
        name = f"{PREFIX}{secrets.token_hex(6)}"
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        marks = [{"Key": key, "Value": value} for key, value in build_tags(until).items()]
        config |= {"ModelName": name, "InitialInstanceCount": 1, "InitialVariantWeight": 1}
        client = self._client
        # Everything is deleted in the opposite order, also if its creation is interrupted.
        with ExitStack() as held:
            try:
                held.callback(remove_model, client, name)
                client.create_model(ModelName=name, Tags=marks, **model)
                held.callback(remove_config, client, name)
                client.create_endpoint_config(
                    EndpointConfigName=name,
                    ProductionVariants=[config],
                    MetricsConfig=source.metrics,
                    Tags=marks,
                )
                self._ledger.record_start(name, price)
                held.callback(self._remove, name)
                client.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=marks)
            except ClientError as error:
                raise TemporaryError(f"{name}: cannot be created: {error}") from None
            guard = threading.Timer(
                max(1.0, seconds - _DELETING_SECONDS), self._end_at_budget, [name]
            )
            guard.daemon = True
            guard.start()
            held.callback(guard.cancel)
            self._wait_until_in_service(name)
            yield name

    def _compute_seconds(self, instance_type: str) -> tuple[float, float]:
        """Return (US dollars per hour, seconds that the budget pays for). Raises TemporaryError."""
        price, left_usd = self._usd_per_hour(instance_type), self._budget_usd - self.spent_usd
        if price is None:
            raise TemporaryError(
                f"{instance_type}: its price is not known, so no budget can be held; write it into "
                "prices.instance_usd_per_hour"
            )
        seconds = left_usd / price * 3600
        if seconds < _LEAST_SECONDS:
            raise BudgetSpentError(
                f"{left_usd:.2f} $ of {self._budget_usd:.2f} $ are left, {instance_type} needs "
                f"{price * _LEAST_SECONDS / 3600:.2f} $ at least; give more with --dollars"
            )
        return price, seconds

    def _wait_until_in_service(self, name: str) -> None:
        while (described := self._client.describe_endpoint(EndpointName=name))[
            "EndpointStatus"
        ] != "InService":
            status = described["EndpointStatus"]
            if status not in ("Creating", "Updating", "SystemUpdating"):
                why = described.get("FailureReason", "no reason is given")
                raise NotInServiceError(f"{name}: is {status}: {why}")
            time.sleep(self._poll_seconds)

    def _remove(self, name: str) -> None:
        """Delete the endpoint and record it. An endpoint that isn't deleted keeps incurring costs."""
        with suppress(OSError):  # nobody reads what is printed any more
            self._told(
                f"deleting {name}, which takes some minutes; if interrupted, it stays and costs"
            )
        remove_endpoint(self._client, name)
        self._ledger.record_end(name)

    def _end_at_budget(self, name: str) -> None:
        """Delete the endpoint when the budget ends. A running measurement sees errors from then on."""
        self.ended_by_budget = True
        # The end of the block deletes it too, and reports why it can't.
        with suppress(BotoCoreError, ClientError, TimeoutError):
            remove_endpoint(self._client, name)


@contextmanager
def translate_aws_errors(live: str) -> Iterator[None]:
    """Turn AWS's errors about a copy of `live` into a TemporaryError."""
    try:
        yield
    except (ClientError, BotoCoreError, TimeoutError) as error:
        raise TemporaryError(
            f"{live}: {error}; if an endpoint named {PREFIX}… is left, the next run removes it"
        ) from None
