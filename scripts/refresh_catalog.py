"""Regenerate infra/catalog's data files from the published sources.

    python scripts/refresh_catalog.py [images] [instances] [availability] [limits] [prices]

images.json from the SageMaker SDK's image table; instances.json from the EC2 instance
table that moto ships (a copy of DescribeInstanceTypes), kept to the types that SageMaker's
API accepts; availability.json from cfn-lint's data; limits.json from botocore's service
models; prices.json from the Price List API where there are credentials. Rows that no
published table holds (retired ml.p2, ml.p3) and facts that none states (CUDA of an image,
end of patch) are written by hand in the other files, each with its source.
"""

import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.catalog.availability import availability  # noqa: E402  (the path comes first)
from scripts.catalog.images import images  # noqa: E402
from scripts.catalog.instances import instances  # noqa: E402
from scripts.catalog.limits import limits  # noqa: E402
from scripts.catalog.prices import prices  # noqa: E402

CATALOG = ROOT / "infra" / "catalog"
TABLES: dict[str, Callable[[], dict[str, Any]]] = {
    "images": images,
    "instances": instances,
    "availability": availability,
    "limits": limits,
    "prices": prices,
}


def written(name: str, table: dict[str, Any]) -> bool:
    """Writes the table with today's date; False when nothing in it has changed."""
    target = CATALOG / f"{name}.json"
    old = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    if {**old, "date": ""} == {**json.loads(json.dumps(table)), "date": ""}:
        return False
    dated = {"source": table["source"], "date": _today(), **table} | {"date": _today()}
    beside = target.with_suffix(".new")
    beside.write_text(json.dumps(dated, indent=1) + "\n", encoding="utf-8")
    beside.replace(target)
    return True


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


if __name__ == "__main__":
    for wanted in sys.argv[1:] or TABLES:
        if wanted not in TABLES:
            sys.exit(f"{wanted!r} is no table; allowed: {', '.join(TABLES)}")
        word = "written" if written(wanted, TABLES[wanted]()) else "unchanged"
        print(f"infra/catalog/{wanted}.json: {word}")
