"""instances.json: every type that SageMaker's API accepts, as EC2 describes it."""

import gzip
import json
from importlib import metadata, resources
from typing import Any

import botocore.session

# Hosted by SageMaker, but the TensorFlow Serving image has no build for their accelerator.
EXCLUDED = {
    "inf": "AWS Inferentia: needs a model compiled with Neuron and another image",
    "trn": "AWS Trainium: needs a model compiled with Neuron and another image",
    "dl": "Habana Gaudi: needs another image",
    "t3.": "in AWS's price list, but not among the types that SageMaker's API takes; ml.t2 is",
}


def instances() -> dict[str, Any]:
    """vCPUs, memory, GPUs, architecture, local NVMe and burst of every hosted type."""
    packed = resources.files("moto.ec2").joinpath("resources/instance_types.json.gz").read_bytes()
    ec2 = json.loads(gzip.decompress(packed))
    model = botocore.session.get_session().get_service_model("sagemaker")
    accepted = model.shape_for("ProductionVariantInstanceType").enum
    rows = {
        name: row_of(ec2[name.removeprefix("ml.")])
        for name in sorted(accepted)
        if name.removeprefix("ml.") in ec2
        and not name.removeprefix("ml.").startswith(tuple(EXCLUDED))
    }
    return {
        "source": f"EC2 DescribeInstanceTypes as shipped with moto {metadata.version('moto')}, for the "
        f"types in botocore {metadata.version('botocore')} ProductionVariantInstanceType",
        "excluded": EXCLUDED,
        "instances": rows,
    }


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """One type in our words, from EC2's."""
    gpus = row.get("GpuInfo", {}).get("Gpus", [])
    found = {
        "vcpus": row["VCpuInfo"]["DefaultVCpus"],
        "memory_gib": row["MemoryInfo"]["SizeInMiB"] / 1024,
        "architecture": row["ProcessorInfo"]["SupportedArchitectures"][-1],
        "burstable": row["BurstablePerformanceSupported"],
        "local_nvme_gb": row.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
    }
    if gpus:
        found |= {
            "gpu": gpus[0]["Name"],
            "gpus": sum(gpu["Count"] for gpu in gpus),
            "gpu_memory_gib": gpus[0]["MemoryInfo"]["SizeInMiB"] / 1024,
        }
    return found
