"""A copy of a live endpoint's variant, on an instance of its own, for as long as it is measured.

    endpoints = TemporaryEndpoints(client, budget_usd=5.0, usd_per_hour=price_of)
    endpoints.sweep()
    with endpoints.like("ranker-prod", instance_type="ml.c5.4xlarge", variables={…}) as name:
        …

Model, image, archive, role and network are those of the live variant; nothing of it is changed.
"""

import datetime
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from botocore.exceptions import ClientError

from tuning.temporary.leftovers import sweep
from tuning.temporary.marks import new_name, tags
from tuning.temporary.removal import remove_config, remove_endpoint, remove_model

# An endpoint needs minutes to be made and to be deleted; less is spent on nothing.
_LEAST_SECONDS = 600.0
# Deleting takes so long, and costs meanwhile.
_DELETING_SECONDS = 180.0
_POLL_SECONDS = 5.0
_MODEL_KEYS = ("PrimaryContainer", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation")
_VARIANT_KEYS = (
    "VariantName",
    "InstanceType",
    "VolumeSizeInGB",
    "ModelDataDownloadTimeoutInSeconds",
    "ContainerStartupHealthCheckTimeoutInSeconds",
    "InferenceAmiVersion",
)


class TemporaryError(Exception):
    """`str()` is a whole sentence."""


class BudgetSpent(TemporaryError):
    """What is left of the budget is too little for another endpoint."""


class TemporaryEndpoints:
    def __init__(
        self,
        client: Any,
        *,
        budget_usd: float,
        usd_per_hour: Callable[[str], float | None],
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        """`client`: of boto3, for "sagemaker". `usd_per_hour` of an instance type; None: unknown."""
        self._client = client
        self._budget_usd = budget_usd
        self._usd_per_hour = usd_per_hour
        self._poll_seconds = poll_seconds
        self.spent_usd = 0.0
        """Reckoned from the request to make an endpoint until it is gone: no less than is billed."""
        self.ended_by_budget = False

    def sweep(self) -> list[str]:
        """Removes what earlier runs left behind; what it was."""
        return sweep(self._client)

    @contextmanager
    def like(
        self,
        live: str,
        *,
        variant: str | None = None,
        instance_type: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Iterator[str]:
        """The name of an endpoint in service; deleted when the block ends, or the budget.

        Left out: the first variant, its own instance type, its own variables.
        Raises TemporaryError, and BudgetSpent before anything is made.
        """
        model, config = self._source(live, variant)
        if instance_type:
            config["InstanceType"] = instance_type
        if variables is not None:
            model["PrimaryContainer"]["Environment"] = dict(variables)
        price = self._price(config["InstanceType"])
        seconds = (self._budget_usd - self.spent_usd) / price * 3600
        if seconds < _LEAST_SECONDS:
            raise BudgetSpent(
                f"{self._budget_usd - self.spent_usd:.2f} $ of {self._budget_usd:.2f} $ are left, "
                f"{config['InstanceType']} needs {price * _LEAST_SECONDS / 3600:.2f} $ at least; "
                "give more with --budget-usd"
            )
        began = time.monotonic()
        name = new_name()
        marks = tags(datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds))
        try:
            with ExitStack() as made:
                self._make(made, name, model, config, marks)
                guard = threading.Timer(max(1.0, seconds - _DELETING_SECONDS), self._end, [name])
                guard.daemon = True
                guard.start()
                made.callback(guard.cancel)
                self._wait(name)
                yield name
        finally:
            self.spent_usd += (time.monotonic() - began) / 3600 * price

    def _make(
        self,
        made: ExitStack,
        name: str,
        model: dict[str, Any],
        config: dict[str, Any],
        marks: Mapping[str, str],
    ) -> None:
        """Each is deleted again, in the opposite order, also where its making was interrupted."""
        told = [{"Key": key, "Value": value} for key, value in marks.items()]
        client = self._client
        try:
            made.callback(remove_model, client, name)
            client.create_model(ModelName=name, Tags=told, **model)
            made.callback(remove_config, client, name)
            one = config | {"ModelName": name, "InitialInstanceCount": 1, "InitialVariantWeight": 1}
            client.create_endpoint_config(
                EndpointConfigName=name, ProductionVariants=[one], Tags=told
            )
            made.callback(remove_endpoint, client, name)
            client.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=told)
        except ClientError as error:
            raise TemporaryError(f"{name}: cannot be made: {error}") from None

    def _source(self, live: str, variant: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """(model, variant) as a request has them."""
        try:
            described = self._client.describe_endpoint(EndpointName=live)
            found = self._client.describe_endpoint_config(
                EndpointConfigName=described["EndpointConfigName"]
            )
            variants = {one["VariantName"]: one for one in found["ProductionVariants"]}
            chosen = variants.get(variant or next(iter(variants)))
            if chosen is None:
                allowed = ", ".join(variants)
                raise TemporaryError(f"{live}: has no variant {variant!r}; allowed: {allowed}")
            model = self._client.describe_model(ModelName=chosen["ModelName"])
        except ClientError as error:
            raise TemporaryError(f"{live}: cannot be copied: {error}; deploy it first") from None
        if "InstanceType" not in chosen or "PrimaryContainer" not in model:
            raise TemporaryError(f"{live}: only one container on instances can be copied")
        return (
            {key: model[key] for key in _MODEL_KEYS if key in model},
            {key: chosen[key] for key in _VARIANT_KEYS if key in chosen},
        )

    def _price(self, instance_type: str) -> float:
        price = self._usd_per_hour(instance_type)
        if price is None:
            raise TemporaryError(
                f"{instance_type}: its price is not known, so no budget can be held; "
                "give it with --usd-per-hour"
            )
        return price

    def _wait(self, name: str) -> None:
        while True:
            described = self._client.describe_endpoint(EndpointName=name)
            status = described["EndpointStatus"]
            if status == "InService":
                return
            if status not in ("Creating", "Updating", "SystemUpdating"):
                why = described.get("FailureReason", "no reason is given")
                raise TemporaryError(f"{name}: is {status}: {why}")
            time.sleep(self._poll_seconds)

    def _end(self, name: str) -> None:
        """The budget is over: whoever measures it sees errors from now on."""
        self.ended_by_budget = True
        remove_endpoint(self._client, name)
