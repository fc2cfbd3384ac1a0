"""Where trials are measured: on this machine, or on copies of the live endpoint."""

import hashlib
import os
import platform
import time
from pathlib import Path

from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement
from model_packaging.digest import sha256_of
from servable.load.measurement import Asked
from servable.serve.serve import prepared
from servable.tune.asking import Asking, Told
from servable.tune.container_space import current
from servable.tune.machine_space import Machines
from servable.tune.run import TuneError, run_key
from servable.tune.temporary.live import LiveVariant, live_variant
from servable.tune.trials.local import LocalTrials
from servable.tune.trials.temporary import TemporaryTrials
from servable.tune.trials.trials import Trials


def trials_of(
    kinds: Machines,
    placement: Placement,
    asking: Asking,
    folder: Path,
    model: LiveVariant | str,
    told: Told,
) -> Trials:
    """`model`: the live one, or the digest of the archive here. Raises TuneError without a price."""
    loaded = kinds.kinds[kinds.today].loaded
    assert loaded.environment is not None  # it was placed
    if asking.account is None or isinstance(model, str):
        asked = Asked(
            target="local",
            address="this machine",
            environment=loaded.name,
            variant=placement.name,
            model_sha256=str(model),
            bodies=asking.body_names,
            started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            machine=f"{platform.machine()}, {os.cpu_count() or 1} cores",
        )
        here = LocalTrials(kinds, asking.bodies, asked, folder, goal=asking.goal)
        return _priced(here.priced(asking.usd_per_hour), asking)
    there = TemporaryTrials(
        kinds,
        asking.bodies,
        asking.account,
        folder,
        body_names=asking.body_names,
        live=model,
        budget_usd=asking.dollars,
        goal=asking.goal,
        told=told.stage,
    )
    return _priced(there.priced(asking.usd_per_hour), asking)


def _priced(trials: Trials, asking: Asking) -> Trials:
    """Before anything is spent: what has no price would be found out in the middle."""
    if asking.account is None and asking.goal != "cost":
        return trials
    machines = trials.machines
    unknown = [kind for kind in machines.kinds if trials.price_of(kind) is None]
    if machines.today in unknown:
        raise TuneError(
            f"{machines.today}: no source states its price; give it with --usd-per-hour"
        )
    if unknown:
        raise TuneError(
            f"{', '.join(unknown)}: no source states the price; leave it out of --instance-types"
        )
    return trials


def live_of(loaded: Loaded, placement: Placement, asking: Asking) -> LiveVariant | None:
    """What is copied; None: this machine is asked."""
    if asking.account is None:
        return None
    assert loaded.environment is not None  # it was placed
    client = asking.account.client("sagemaker")
    return live_variant(client, loaded.environment.endpoint.name, placement.name)


def digest(loaded: Loaded, placement: Placement) -> str:
    """Of the archive that this machine serves. Raises Refusal."""
    archive = prepared(loaded, variant=placement.name).archive
    assert archive is not None  # one model, as the caller has seen
    return sha256_of(archive)


def run_name(
    loaded: Loaded,
    placement: Placement,
    asking: Asking,
    kinds: Machines,
    model: LiveVariant | str,
) -> str:
    """Of the folder: another question is another run."""
    sent = [hashlib.sha256(one.content).hexdigest() for one in asking.bodies]
    account = asking.account
    where = account and (account.number, account.client("sagemaker").meta.endpoint_url)
    tried = kinds.space
    assert loaded.environment is not None  # it was placed
    # The limit that is given, else the one that it is found from: neither stands for the other.
    stated_ms = loaded.environment.alarms.p99_latency_ms if asking.most_ms is None else None
    key = run_key(
        [model, tried.keys, tried.names, current(placement), *sent]
        + [asking.percent, asking.most_ms, stated_ms, asking.goal, asking.usd_per_hour, where]
    )
    return f"{loaded.name}-{placement.name}-{key}"
