"""Regenerate infra/catalog's data files from the published sources.

    python -m scripts.refresh_catalog [TABLE ...]

images.json from the SageMaker SDK's image table; instances.json from the EC2 instance
table that moto ships (a copy of DescribeInstanceTypes), kept to the types that SageMaker's
API accepts; availability.json from cfn-lint's data; limits.json from botocore's service
models; handler_permissions.json from CloudFormation's schemas, which cfn-lint brings;
prices.json from the Price List API where there are credentials. Rows that no published
table holds (retired ml.p2, ml.p3) and facts that none states (CUDA of an image,
end of patch) are written by hand in the other files, each with its source.
"""

import datetime
import gzip
import json
import re
import sys
from collections.abc import Callable
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore.exceptions import BotoCoreError, ClientError
from packaging.version import Version
from sagemaker.core.common_utils import ALTERNATE_DOMAINS

from servable.cost.price_list import build_price_rows

ROOT = Path(__file__).resolve().parents[1]
CATALOG = ROOT / "infra" / "catalog"
TODAY = datetime.datetime.now(datetime.UTC).date().isoformat()


# images.json: the TensorFlow inference images that the SageMaker SDK knows.
def read_images() -> dict[str, Any]:
    """Return TensorFlow 2.x inference images: tag by version and device, account by Region."""
    file = resources.files("sagemaker.core").joinpath("image_uri_config/tensorflow.json")
    table = json.loads(file.read_text())["inference"]
    registries: list[dict[str, str]] = []
    versions: dict[str, Any] = {}
    aliases = table["version_aliases"]
    for version in sorted([*aliases, *table["versions"]], key=Version):
        row = table["versions"][aliases.get(version, version)]
        if not version.startswith("2.") or row["repository"] != "tensorflow-inference":
            continue
        if row["registries"] not in registries:
            registries.append(row["registries"])
        python = f"-{row['py_versions'][0]}" if row.get("py_versions") else ""
        versions[version] = {
            "tag": {device: f"{version}-{device}{python}" for device in table["processors"]},
            "registries": registries.index(row["registries"]),
        }
    return {
        "source": f"SageMaker Python SDK, sagemaker-core {metadata.version('sagemaker-core')}, "
        "image_uri_config/tensorflow.json",
        "repository": "tensorflow-inference",
        # Domains of regions outside the public partition; amazonaws.com elsewhere.
        "domains": ALTERNATE_DOMAINS,
        "registries": registries,
        "versions": versions,
    }


# instances.json: every type that SageMaker's API accepts, as EC2 describes it, but for these.
# Hosted by SageMaker, but the TensorFlow Serving image has no build for their accelerator.
EXCLUDED = {
    "inf": "AWS Inferentia: needs a model compiled with Neuron and a different image",
    "trn": "AWS Trainium: needs a model compiled with Neuron and a different image",
    "dl": "Habana Gaudi: needs a different image",
    "t3.": "in AWS's price list, but SageMaker's API doesn't accept it; it accepts ml.t2",
}


def read_instances() -> dict[str, Any]:
    """Return vCPUs, memory, GPUs, architecture, local NVMe, and burst of every hosted type."""
    packed = resources.files("moto.ec2").joinpath("resources/instance_types.json.gz").read_bytes()
    ec2 = json.loads(gzip.decompress(packed))
    model = botocore.session.get_session().get_service_model("sagemaker")
    accepted = model.shape_for("ProductionVariantInstanceType").enum
    known = (name for name in sorted(accepted) if name.removeprefix("ml.") in ec2)
    hosted = [name for name in known if not name[3:].startswith(tuple(EXCLUDED))]
    rows = {name: convert_row(ec2[name[3:]]) for name in hosted}
    return {
        "source": f"EC2 DescribeInstanceTypes as shipped with moto {metadata.version('moto')}, for the "
        f"types in botocore {metadata.version('botocore')} ProductionVariantInstanceType",
        "excluded": EXCLUDED,
        "instances": rows,
    }


def convert_row(row: dict[str, Any]) -> dict[str, Any]:
    """Convert EC2's row of one type to ours."""
    gpus = row.get("GpuInfo", {}).get("Gpus", [])
    instance = {
        "vcpus": row["VCpuInfo"]["DefaultVCpus"],
        "memory_gib": row["MemoryInfo"]["SizeInMiB"] / 1024,
        "architecture": row["ProcessorInfo"]["SupportedArchitectures"][-1],
        "burstable": row["BurstablePerformanceSupported"],
        "local_nvme_gb": row.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
    }
    if gpus:
        instance |= {
            "gpu": gpus[0]["Name"],
            "gpus": sum(gpu["Count"] for gpu in gpus),
            "gpu_memory_gib": gpus[0]["MemoryInfo"]["SizeInMiB"] / 1024,
        }
    return instance


# availability.json: which instance type SageMaker hosts models on in which region.
def read_availability() -> dict[str, Any]:
    """Return each hosted type's Regions, by cfn-lint's data, derived from AWS's price list."""
    schemas = resources.files("cfnlint").joinpath("data/schemas")
    file = schemas.joinpath("extensions/aws_sagemaker_hosting/instancetype_enum.json")
    table = json.loads(file.read_text())
    # What CloudFormation has in each Region; AWS SAM's own schema is in the same folder.
    providers = {
        Path(file.name).stem: json.loads(file.read_text())
        for file in schemas.joinpath("providers").iterdir()
        if file.name.endswith(".json") and file.name != "sam.json"
    }
    regions = {region: row["enum"] for region, row in table.items() if region != "description"}
    types = sorted({name for offered in regions.values() for name in offered})
    return {
        "source": f"cfn-lint {metadata.version('cfn-lint')}, data/schemas/extensions/"
        "aws_sagemaker_hosting/instancetype_enum.json, which it derives from AWS's price list; "
        "without_endpoints: data/schemas/providers, the resource types that CloudFormation has in each "
        "region",
        "without_endpoints": sorted(
            region for region, kinds in providers.items() if "AWS::SageMaker::Endpoint" not in kinds
        ),
        "regions": sorted(regions),
        "types": {name: [one for one in sorted(regions) if name in regions[one]] for name in types},
    }


# limits.json: the ranges that AWS's own service models state.
# Another shape is added to the file by hand, as {}; this fills it in.
def read_limits() -> dict[str, Any]:
    """Return the limits (min, max, pattern, enum) of each shape of each service."""
    session = botocore.session.get_session()
    services = json.loads((CATALOG / "limits.json").read_text(encoding="utf-8"))["services"]
    for service, shapes in services.items():
        model = session.get_service_model(service)
        for name in shapes:
            stated = model.shape_for(name).metadata
            words = [word for word in ("min", "max", "pattern", "enum") if word in stated]
            shapes[name] = {word: stated[word] for word in words}
    return {
        "source": f"botocore {metadata.version('botocore')}, the service models",
        "services": services,
    }


# handler_permissions.json: the actions with which CloudFormation makes, reads, changes and deletes a type.
def read_handler_permissions() -> dict[str, Any]:
    """Return each resource type's actions, from its handlers in CloudFormation's registry."""
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # it takes half a second

    table = json.loads((CATALOG / "handler_permissions.json").read_text(encoding="utf-8"))
    types: dict[str, list[str]] = {}
    for name in table["types"]:  # another type is added to the file by hand, as []
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", name).schema
        verbs = ("create", "read", "update", "delete")
        parts = [*(schema["handlers"].get(verb, {}) for verb in verbs), schema.get("tagging") or {}]
        stated = {action for part in parts for action in part.get("permissions", [])}
        # s3:REST.PUT.OBJECT is among them, which isn't an action of IAM.
        types[name] = sorted(action for action in stated if re.fullmatch(r"[a-z0-9-]+:\w+", action))
    return {
        "source": f"cfn-lint {metadata.version('cfn-lint')}, data/schemas: handlers (create, read, "
        "update, delete) and tagging of each resource type's schema in the CloudFormation registry",
        "types": types,
    }


# prices.json: what an instance costs an hour, from the Price List API where there are credentials.
# Without them the rows stay unchanged: each has its own source and date.
def read_prices() -> dict[str, Any]:
    """Return the existing rows, updated with the API's for the same type and Region."""
    table: dict[str, Any] = json.loads((CATALOG / "prices.json").read_text(encoding="utf-8"))
    try:
        pages = boto3.client("pricing", region_name="us-east-1").get_paginator("get_products")
        hosting = {"Type": "TERM_MATCH", "Field": "component", "Value": "Hosting"}
        found = pages.paginate(ServiceCode="AmazonSageMaker", Filters=[hosting])
        products = [json.loads(product) for page in found for product in page["PriceList"]]
    except (BotoCoreError, ClientError) as failure:
        print(f"prices: the rows weren't updated: {failure}")
        return table
    return table | {"prices": merge_rows(table["prices"], build_price_rows(products, as_of=TODAY))}


def merge_rows(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return both lists, sorted; the new row replaces an old one of the same type and Region."""
    by_place = {(row["instance"], row["region"]): row for row in [*old, *new]}
    return [row for _, row in sorted(by_place.items())]


TABLES: dict[str, Callable[[], dict[str, Any]]] = {
    "images": read_images,
    "instances": read_instances,
    "availability": read_availability,
    "limits": read_limits,
    "handler_permissions": read_handler_permissions,
    "prices": read_prices,
}


def write_table(name: str, table: dict[str, Any]) -> bool:
    """Write the table with today's date; return False if nothing in it has changed."""
    target = CATALOG / f"{name}.json"
    old = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    if {**old, "date": ""} == {**json.loads(json.dumps(table)), "date": ""}:
        return False
    dated = {"source": table["source"], "date": TODAY, **table} | {"date": TODAY}
    target.write_text(json.dumps(dated, indent=1) + "\n", encoding="utf-8")
    return True


if __name__ == "__main__":
    for wanted in sys.argv[1:] or TABLES:
        if wanted not in TABLES:
            sys.exit(f"{wanted!r} isn't a table; allowed: {', '.join(TABLES)}")
        word = "written" if write_table(wanted, TABLES[wanted]()) else "unchanged"
        print(f"infra/catalog/{wanted}.json: {word}")
