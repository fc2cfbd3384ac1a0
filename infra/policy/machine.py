"""What a variant's container runs on: an instance type, or serverless memory."""

from infra.catalog.instances import Instance, instances

MIB_PER_GIB = 1024
# Serverless Inference runs on AWS Lambda, which has one vCPU for each 1,769 MB.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html; that SageMaker's memory
# buys the same is an assumption: its guide says "proportional" and no number.
MIB_PER_VCPU = 1769
# https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html (ephemeral disk storage)
SERVERLESS_DISK_GB = 5
# Within which a serverless container must answer its first ping (the same page, "cold starts").
SERVERLESS_START_SECONDS = 180


def serverless_machine(memory_mib: int) -> Instance:
    """CPUs and memory of one container; no GPU, and no disk of its own size."""
    return Instance(
        name=f"serverless with {memory_mib} MiB",
        vcpus=max(1, memory_mib // MIB_PER_VCPU),
        memory_gib=memory_mib / MIB_PER_GIB,
        architecture="x86_64",
        burstable=False,
        local_nvme_gb=0,
    )


def machine(instance_type: str | None, serverless_memory_mib: int | None) -> Instance:
    """Of a variant that has one of the two. Raises KeyError for an unknown type, or neither."""
    if serverless_memory_mib is not None:
        return serverless_machine(serverless_memory_mib)
    return instances()[instance_type or ""]
