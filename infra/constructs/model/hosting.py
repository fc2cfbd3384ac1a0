"""The image and variables of a model on an instance type, in a stack's Region."""

from dataclasses import replace

import aws_cdk as cdk

from infra.catalog import images
from infra.catalog.images import Image
from infra.catalog.instances import load_instances
from infra.parameters.finding import suggest_name
from infra.parameters.placement import Placement
from infra.policy.hosting import Hosting

# Stand for what a stack without account and Region doesn't know.
SOME_ACCOUNT, SOME_REGION = "000000000000", "us-east-1"


def check_instance_type(where: str, given: str) -> None:
    """Raise ValueError for an instance type that is a token or unknown."""
    if cdk.Token.is_unresolved(given):
        raise ValueError(
            f"{where}: instance_type: its value is known only to CloudFormation, but image, driver, and "
            "settings are chosen for it; pass the type as a string"
        )
    if given not in load_instances():
        close = suggest_name(given, load_instances())
        raise ValueError(f"{where}: instance_type: {given!r} isn't an instance type; {close}")


def choose_hosting(stack: cdk.Stack, placement: Placement) -> Hosting:
    """Return the image and variables. Raises ValueError for a Region without the image."""
    if cdk.Token.is_unresolved(stack.region):
        runs = placement.build_hosting(SOME_REGION)
        return replace(runs, image=_look_up_image(stack, runs.image, runs.tensorflow))
    regions = images.list_regions(placement.tensorflow)
    if placement.model.image is None and stack.region not in regions:
        raise ValueError(
            f"{stack.node.path}: env: TensorFlow {placement.tensorflow} has no image in the region "
            f"{stack.region}; set env's region to one of {', '.join(regions)}"
        )
    return placement.build_hosting(stack.region)


def _look_up_image(stack: cdk.Stack, image: Image, tensorflow: str) -> Image:
    """Return the image in the Region of the deployment, from a mapping of the template."""
    mapping_id, here = f"ServableRegistries{tensorflow.replace('.', '')}", cdk.Aws.REGION
    mapping = stack.node.try_find_child(mapping_id)
    if mapping is None:
        registries = {
            region: {"account": account, "domain": images.find_domain(region)}
            for region, account in images.find_registries(tensorflow).items()
        }
        mapping = cdk.CfnMapping(stack, mapping_id, mapping=registries)
    assert isinstance(mapping, cdk.CfnMapping)
    account, domain = (mapping.find_in_map(here, key) for key in ("account", "domain"))
    uri = f"{account}.dkr.ecr.{here}.{domain}/{image.repository}:{image.tag}"
    return Image(account, here, image.repository, image.tag, own_uri=uri)
