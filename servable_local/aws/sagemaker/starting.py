"""How the fleet of an endpoint configuration comes to serve."""

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from infra.policy.container import MULTI_MODEL_SWITCH
from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker import archive
from servable_local.aws.sagemaker.container import Container
from servable_local.aws.sagemaker.errors import StartError
from servable_local.aws.sagemaker.fleet import Fleet, Variant
from servable_local.aws.sagemaker.launching import Launch
from servable_local.aws.sagemaker.target_models import TargetModels
from servable_local.container.image_code import version_of_image

# SageMaker's own default for containerStartupHealthCheckTimeoutInSeconds is not documented;
# a local start takes about 6 s.
_READY_TIMEOUT_SECONDS = 60.0
_ONLY = "The embedded AWS serves a model of exactly one container that has model data"


def start_fleet(
    config: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    *,
    aws: Loopback,
    launch: Launch,
    folder: Path,
    endpoint_name: str,
) -> Fleet:
    """Returns when every variant answers its ping; raises `StartError` and leaves nothing.

    `folder` takes the containers' logs, which stay, and their archives, which go.
    """
    archives = Path(tempfile.mkdtemp(prefix="archives-", dir=folder))

    def begin(specification: Mapping[str, Any]) -> Variant:
        name = specification["VariantName"]
        model = models.get(specification.get("ModelName", "").lower())
        if model is None:
            raise StartError(f'Could not find model "{specification.get("ModelName")}".')
        containers = model.get("Containers") or [model["PrimaryContainer"]]
        container = containers[0]
        url = archive.data_url(container)
        if len(containers) != 1 or url is None:
            raise StartError(f"{_ONLY}; variant {name} has another.")
        many = container.get("Mode") == "MultiModel"
        path = None if many else archive.fetch(url, aws, archives / f"{name}.tar.gz")
        variables = version_of_image(container.get("Image", ""))
        variables |= container.get("Environment", {})
        if many:  # SageMaker sets it; a template does not
            variables[MULTI_MODEL_SWITCH] = "true"
        ready_timeout_seconds = float(
            specification.get("ContainerStartupHealthCheckTimeoutInSeconds", _READY_TIMEOUT_SECONDS)
        )
        running = Container(
            lambda: launch(
                path,
                variables,
                ready_timeout_seconds=ready_timeout_seconds,
                log=folder / f"{endpoint_name}-{name}.log",
            )
        )
        return Variant(
            name=name,
            weight=float(specification.get("InitialVariantWeight", 1.0)),
            instance_count=int(specification.get("InitialInstanceCount", 1)),
            image=container.get("Image", ""),
            container=running,
            serverless=specification.get("ServerlessConfig"),
            models=TargetModels(running, url, aws=aws, folder=archives / name) if many else None,
        )

    following = config.get("ShadowProductionVariants", [])
    specifications = [*config["ProductionVariants"], *following]
    started: list[Variant] = []
    failures: list[str] = []
    with ThreadPoolExecutor(max_workers=max(1, len(specifications))) as pool:
        for future in [pool.submit(begin, one) for one in specifications]:
            try:
                started.append(future.result())
            except Exception as error:
                failures.append(str(error) or type(error).__name__)
    shadows = {one["VariantName"] for one in following}
    fleet = Fleet(
        config["EndpointConfigName"],
        [one for one in started if one.name not in shadows],
        archives,
        [one for one in started if one.name in shadows],
    )
    if failures:
        fleet.close()
        raise StartError(" ".join(failures))
    return fleet
