"""A copy of a deployed endpoint's variant, on a separate instance, while it is measured.

    endpoints = TemporaryEndpoints(client, budget_usd=5.0, usd_per_hour=find_price)
    endpoints.sweep()
    source = read_live_variant(client, "ranker-prod")
    with endpoints.run_copy(source, instance_type="ml.c5.4xlarge", variables={…}) as name:
        …

The copy has the model, image, archive, role, and network of the deployed variant, which isn't
changed. A kill -9 deletes nothing; the next run recognizes abandoned resources by their name
prefix and tags, deletes them, and leaves those in use.
"""

import datetime
import json
import math
import platform
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from botocore.exceptions import BotoCoreError, ClientError, WaiterError

from infra.catalog.instances import load_instances
from model_packaging.beside import write_atomically
from servable.measured.measurement import LoadError

PREFIX = "servable-temporary-"
TAG = "servable:temporary"
OWNER = "servable:owner"
UNTIL = "servable:delete-after"
# Deleted in this order: an endpoint incurs costs, and uses the others.
KINDS = {"Endpoint": "endpoint", "EndpointConfig": "endpoint_config", "Model": "model"}
# Creating and deleting an endpoint takes minutes; less time would measure nothing.
_LEAST_SECONDS = 600.0
# Deletion takes so long, and incurs costs.
_DELETING_SECONDS = 180.0
# An endpoint is created, or fails, within an hour; its deletion takes minutes.
_MOST_SECONDS = 3600.0
_LEAST_WAIT_SECONDS, _MOST_WAIT_SECONDS = 0.2, 10.0
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
_REFUSED = ("AccessDenied", "ExpiredToken", "UnrecognizedClient", "InvalidClientToken")
_MODEL_KEYS = ("PrimaryContainer", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation")
# Without it, SageMaker would also collect OpenTelemetry metrics:
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-detailed-observability-getting-started.html
# (read 2026-11-22)
_NO_METRICS_CONFIG = {"EnableDetailedObservability": False}
_VARIANT_KEYS = (
    "VariantName", "InstanceType", "VolumeSizeInGB", "ModelDataDownloadTimeoutInSeconds",
    "ContainerStartupHealthCheckTimeoutInSeconds", "InferenceAmiVersion",
)  # fmt: skip


class BudgetSpentError(LoadError):
    """The remaining budget is too small for another endpoint."""


class NotInServiceError(LoadError):
    """The endpoint was created but doesn't start."""


@dataclass(frozen=True, kw_only=True)
class LiveVariant:
    """A variant, in the form of the requests that create it."""

    model: dict[str, Any]
    config: dict[str, Any]
    metrics: dict[str, Any]
    """The MetricsConfig of its endpoint configuration."""

    @property
    def instance_type(self) -> str:
        return str(self.config["InstanceType"])

    @property
    def variables(self) -> dict[str, str]:
        return dict(self.model["PrimaryContainer"].get("Environment", {}))

    @property
    def archive(self) -> str | None:
        """Return the S3 URI of the model's archive; None if the variant has none."""
        url = self.model["PrimaryContainer"].get("ModelDataUrl")
        return None if url is None else str(url)

    def check_instance_type(self, instance_type: str) -> None:
        """Raise LoadError if the type changes between CPU and GPU: the copy keeps image and driver."""
        live, known = self.instance_type, load_instances()
        devices = [known[each].device for each in (live, instance_type) if each in known]
        if len(set(devices)) > 1:
            raise LoadError(
                f"{instance_type} is {devices[1]}, and the deployed variant's image, on {live}, is for "
                f"{devices[0]}; deploy it on {instance_type} first"
            )


def describe_variant(
    client: Any, live: str, variant: str | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (variant, endpoint configuration) of a deployed endpoint, as AWS describes them.

    `variant` None: the first. Raises LoadError.
    """
    with translate_aws_errors(
        live, "deploy it first, or check the credentials: `aws sts get-caller-identity`"
    ):
        described = client.describe_endpoint(EndpointName=live)
        config = client.describe_endpoint_config(EndpointConfigName=described["EndpointConfigName"])
    if (status := described["EndpointStatus"]) not in ("InService", "Updating"):
        raise LoadError(f"{live}: the endpoint is {status}; wait until it is InService")
    variants = {each["VariantName"]: each for each in config["ProductionVariants"]}
    chosen = variant or next(iter(variants))
    if chosen not in variants:
        allowed = ", ".join(variants)
        raise LoadError(f"{live}: there is no variant {chosen!r}; allowed: {allowed}")
    return variants[chosen], config


def read_live_variant(client: Any, live: str, variant: str | None = None) -> LiveVariant:
    """Return a variant of a deployed endpoint. Raises LoadError. `variant` None: the first."""
    chosen, config = describe_variant(client, live, variant)
    has_model = "ModelName" in chosen
    with translate_aws_errors(live):
        model = client.describe_model(ModelName=chosen["ModelName"]) if has_model else {}
    if "PrimaryContainer" not in model or "InstanceType" not in chosen or "InstancePools" in chosen:
        raise LoadError(
            f"{live}: can copy only one container on one instance type; measure a model of an "
            "inference component or a type of instance_pools in a separate environment"
        )
    return LiveVariant(
        model={key: model[key] for key in _MODEL_KEYS if key in model},
        config={key: chosen[key] for key in _VARIANT_KEYS if key in chosen},
        metrics=config.get("MetricsConfig", _NO_METRICS_CONFIG),
    )


@contextmanager
def translate_aws_errors(
    live: str, fix: str = f"if an endpoint named {PREFIX}… is left, the next run deletes it"
) -> Iterator[None]:
    """Turn AWS's errors about `live` or a copy of it into a LoadError."""
    try:
        yield
    except (ClientError, BotoCoreError, TimeoutError) as error:
        raise LoadError(f"{live}: {error}; {fix}") from None


class Ledger:
    """The costs of temporary endpoints, in a file that survives a kill -9.

    An entry lasts from the request to create an endpoint until its deletion, in seconds since 1970.
    """

    def __init__(self, file: Path | None = None) -> None:
        """Read the file. `file` None: count only the costs of this run."""
        self._file = file
        self._entries: list[dict[str, Any]] = []
        if file and file.exists():
            self._entries = json.loads(file.read_bytes())

    @property
    def usd(self) -> float:
        """Return US dollars: at least what is billed. An entry without an end still incurs costs."""
        now = time.time()
        return math.fsum(
            max(0.0, (entry["ended"] or now) - entry["began"]) * entry["usd_per_hour"] / 3600
            for entry in self._entries
        )

    def record_start(self, name: str, usd_per_hour: float) -> None:
        """Record an endpoint. Call it before creation, so that a kill -9 leaves the entry."""
        began = {"name": name, "usd_per_hour": usd_per_hour, "began": time.time(), "ended": None}
        self._entries.append(began)
        self._write()

    def record_end(self, name: str | None = None) -> None:
        """Record that an endpoint is deleted. `name` None: all, including those of earlier runs."""
        for entry in self._entries:
            if entry["ended"] is None and name in (None, entry["name"]):
                entry["ended"] = time.time()
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            write_atomically(self._file, json.dumps(self._entries, indent=1).encode())


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

        `client`: boto3's client for "sagemaker". `usd_per_hour`: returns an instance type's price,
        or None if it is unknown. `ledger`: what earlier runs spent of the budget. `told`: called
        with a line before an operation that takes minutes.
        """
        self._client, self._told = client, told
        self._budget_usd, self._usd_per_hour = budget_usd, usd_per_hour
        self._poll_seconds = poll_seconds
        self._ledger = ledger or Ledger()
        self.ended_by_budget = False

    @property
    def spent_usd(self) -> float:
        return self._ledger.usd

    def sweep(self) -> None:
        """Delete the resources that earlier runs left behind."""
        now, client = datetime.datetime.now(datetime.UTC), self._client
        for kind, operation in KINDS.items():
            pages = client.get_paginator(f"list_{operation}s").paginate(NameContains=PREFIX)
            for item in [item for page in pages for item in page[f"{kind}s"]]:
                name = item[f"{kind}Name"]
                try:
                    listed = client.list_tags(ResourceArn=item[f"{kind}Arn"])["Tags"]
                except ClientError:
                    continue  # it is gone, or reading its tags isn't permitted
                if is_abandoned(name, {tag["Key"]: tag["Value"] for tag in listed}, now):
                    remove_resource(client, kind, name)
                    self._told(f"removed, left by an earlier run: {kind} {name}")
        self._ledger.record_end()

    @contextmanager
    def run_copy(
        self,
        source: LiveVariant,
        *,
        instance_type: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Iterator[str]:
        """Yield the name of a copy of a variant, in service, until the block or the budget ends.

        Defaults: the variant's instance type and variables. Raises LoadError; among them,
        BudgetSpentError before anything is created.
        """
        model, config, client = dict(source.model), dict(source.config), self._client
        if instance_type:
            source.check_instance_type(instance_type)
            config["InstanceType"] = instance_type
        if variables is not None:
            model["PrimaryContainer"] = model["PrimaryContainer"] | {"Environment": dict(variables)}
        price, seconds = self._compute_paid_seconds(config["InstanceType"])
        name = f"{PREFIX}{secrets.token_hex(6)}"
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        tags = [{"Key": key, "Value": value} for key, value in build_tags(until).items()]
        config |= {"ModelName": name, "InitialInstanceCount": 1, "InitialVariantWeight": 1}
        # Each is deleted in the opposite order, also if its creation is interrupted.
        with ExitStack() as held:
            try:
                held.callback(remove_resource, client, "Model", name)
                client.create_model(ModelName=name, Tags=tags, **model)
                held.callback(remove_resource, client, "EndpointConfig", name)
                client.create_endpoint_config(
                    EndpointConfigName=name,
                    ProductionVariants=[config],
                    MetricsConfig=source.metrics,
                    Tags=tags,
                )
                self._ledger.record_start(name, price)
                held.callback(self._remove_endpoint, name)
                client.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=tags)
            except ClientError as error:
                raise LoadError(f"{name}: cannot be created: {error}") from None
            left_seconds = max(1.0, seconds - _DELETING_SECONDS)
            guard = threading.Timer(left_seconds, self._end_at_budget, [name])
            guard.daemon = True
            guard.start()
            held.callback(guard.cancel)
            self._wait_until_in_service(name)
            yield name

    def _compute_paid_seconds(self, instance_type: str) -> tuple[float, float]:
        """Return (US dollars per hour, seconds that the budget pays for). Raises LoadError."""
        price, left_usd = self._usd_per_hour(instance_type), self._budget_usd - self.spent_usd
        if price is None:
            raise LoadError(
                f"{instance_type}: the price is unknown, so --dollars can't be enforced; set it in "
                "prices.instance_usd_per_hour"
            )
        seconds = left_usd / price * 3600
        if seconds < _LEAST_SECONDS:
            raise BudgetSpentError(
                f"{left_usd:.2f} $ of {self._budget_usd:.2f} $ are left, but {instance_type} needs "
                f"{price * _LEAST_SECONDS / 3600:.2f} $ or more; raise --dollars"
            )
        return price, seconds

    def _wait_until_in_service(self, name: str) -> None:
        attempts = {"Delay": self._poll_seconds, "MaxAttempts": _MOST_SECONDS // self._poll_seconds}
        try:
            waiter = self._client.get_waiter("endpoint_in_service")
            waiter.wait(EndpointName=name, WaiterConfig=attempts)
        except WaiterError as error:
            why = error.last_response.get("FailureReason", error)
            raise NotInServiceError(f"{name} isn't in service: {why}") from None

    def _remove_endpoint(self, name: str) -> None:
        with suppress(OSError):  # the terminal is closed
            self._told(
                f"deleting {name}, which takes some minutes; if you interrupt it, the endpoint stays "
                "and incurs costs"
            )
        remove_resource(self._client, "Endpoint", name)
        self._ledger.record_end(name)

    def _end_at_budget(self, name: str) -> None:
        """Delete the endpoint when the budget ends. A running measurement sees errors from then on."""
        self.ended_by_budget = True
        # The end of the block deletes it too, and reports why it can't.
        with suppress(BotoCoreError, ClientError, TimeoutError):
            remove_resource(self._client, "Endpoint", name)


def build_tags(until: datetime.datetime) -> dict[str, str]:
    return {TAG: "load test", OWNER: describe_owner(), UNTIL: until.isoformat(timespec="seconds")}


def describe_owner(pid: int | None = None) -> str:
    """Return a string that identifies a process, this one by default, among those of all computers.

    Raises psutil.NoSuchProcess.
    """
    process = psutil.Process(pid)
    # With the network card's address, because containers may all be called localhost.
    machine = f"{platform.node()}-{uuid.getnode():012x}"
    return f"{machine}/{process.pid}/{process.create_time():.0f}"


def is_abandoned(name: str, tags: Mapping[str, str], now: datetime.datetime) -> bool:
    """Return whether a resource is temporary and abandoned.

    Its time is over, or the process that created it on this computer has ended.
    """
    if not name.startswith(PREFIX) or TAG not in tags:
        return False
    try:
        if datetime.datetime.fromisoformat(tags[UNTIL]) <= now:
            return True
        machine, pid, _ = tags[OWNER].rsplit("/", 2)
        # A process on another computer may still run.
        is_here = machine == describe_owner().rsplit("/", 2)[0]
        return is_here and describe_owner(int(pid)) != tags[OWNER]
    except psutil.NoSuchProcess:
        return True
    except (KeyError, ValueError, psutil.Error):
        return False  # tags that Servable didn't write


def remove_resource(client: Any, kind: str, name: str) -> None:
    """Delete an "Endpoint", "EndpointConfig", or "Model" and wait until it is gone.

    Raises ClientError if deletion isn't permitted, TimeoutError. Other errors are retried, such
    as a throttled or lost call, or AWS's rejection during an update: an endpoint that stays
    incurs costs.
    """
    describe, delete = (getattr(client, f"{verb}_{KINDS[kind]}") for verb in ("describe", "delete"))
    deadline, wait, reason = time.monotonic() + _MOST_SECONDS, _LEAST_WAIT_SECONDS, ""
    while time.monotonic() < deadline:
        try:
            if describe(**{f"{kind}Name": name}).get("EndpointStatus") != "Deleting":
                delete(**{f"{kind}Name": name})
        except (BotoCoreError, ClientError) as error:
            text = str(error)  # with the code and the message, in SageMaker's words or others'
            if "(ResourceNotFound)" in text or "could not find" in text.lower():
                return
            # Without permission, waiting changes nothing.
            if any(code in text for code in _REFUSED):
                raise
            reason = f": {text}"
        time.sleep(wait)
        wait = min(2 * wait, _MOST_WAIT_SECONDS)
    raise TimeoutError(f"{name} was not deleted within {_MOST_SECONDS:g} s{reason}")
