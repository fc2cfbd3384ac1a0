"""Does it fit into the instance's memory?"""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.policy.sizing import memory
from infra.preflight.counted import counted
from infra.preflight.placement import Placement
from infra.preflight.rule import VariantRule


class Memory(VariantRule):
    """Every model server holds all models; out of memory, the kernel kills one after the other.

    Source: docs/decisions/0011 (0.3 GiB a server, 128 MiB a worker, a tenth for the system),
    or what the file says was measured
    """

    id = "memory"
    acknowledgeable = True
    example = """\
models.ranker.server_memory_gib = 3
variants.primary.container.tfs_processes = 4"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        instance, model = placement.instance, f"models.{placement.variant.model}"
        found = memory(
            instance, placement.served, processes=placement.processes, workers=placement.workers
        )
        if found is None:
            yield from self.size_unknown(loaded, placement)
        elif found.needed_gib > instance.memory_gib:
            yield self.finding(
                loaded,
                placement.machine_key,
                instance.name,
                f"{instance.name}: {counted(placement.processes, 'model server')} "
                f"({found.servers_gib:.1f} GiB), "
                f"{counted(placement.workers, 'worker')} ({found.workers_gib:.1f}) and the system "
                f"({found.system_gib:.1f}) need {found.needed_gib:.1f} of {instance.memory_gib:g} GiB",
                allowed=f"at most {instance.memory_gib:g} GiB",
                remedy="lower tfs_processes or gunicorn_workers, choose a larger type, or measure "
                f"{model}.server_memory_gib and worker_memory_mib",
                reads=(model, placement.key("container")),
            )
