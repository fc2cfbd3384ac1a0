"""availability.json: which instance type SageMaker hosts models on in which region."""

import json
from importlib import metadata, resources
from typing import Any


def availability() -> dict[str, Any]:
    """cfn-lint derives the table from AWS's price list; it is kept by type, which is shorter."""
    table = json.loads(
        resources.files("cfnlint")
        .joinpath("data/schemas/extensions/aws_sagemaker_hosting/instancetype_enum.json")
        .read_text()
    )
    regions = {region: row["enum"] for region, row in table.items() if region != "description"}
    types = sorted({name for offered in regions.values() for name in offered})
    return {
        "source": f"cfn-lint {metadata.version('cfn-lint')}, data/schemas/extensions/"
        "aws_sagemaker_hosting/instancetype_enum.json, which it derives from AWS's price list",
        "regions": sorted(regions),
        "types": {
            name: [region for region in sorted(regions) if name in regions[region]]
            for name in types
        },
    }
