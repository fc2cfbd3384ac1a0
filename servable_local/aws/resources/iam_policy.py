"""AWS::IAM::Policy: one inline policy, put on roles, users and groups."""

import json
from collections.abc import Iterator

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType

_HOLDERS = (
    ("Roles", "role", "RoleName"),
    ("Users", "user", "UserName"),
    ("Groups", "group", "GroupName"),
)


class IamPolicy(ResourceType):
    type = "AWS::IAM::Policy"

    def create(self, properties: Properties, request: Request) -> Made:
        name = request.generate_name(128)
        _put(properties, request)
        return Made(name, {"Id": name})

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        _put(new, request)
        same_name = old["PolicyName"] == new["PolicyName"]
        kept = set(_holders(new)) if same_name else set()
        _remove(old, set(_holders(old)) - kept, request)
        return Made(physical_id, {"Id": physical_id})

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        _remove(properties, set(_holders(properties)), request)


def _holders(properties: Properties) -> Iterator[tuple[str, str, str]]:
    for key, kind, argument in _HOLDERS:
        for name in properties.get(key, []):
            yield kind, argument, name


def _put(properties: Properties, request: Request) -> None:
    for kind, argument, name in _holders(properties):
        getattr(request.client("iam"), f"put_{kind}_policy")(
            **{argument: name},
            PolicyName=properties["PolicyName"],
            PolicyDocument=json.dumps(properties["PolicyDocument"]),
        )


def _remove(properties: Properties, holders: set[tuple[str, str, str]], request: Request) -> None:
    iam = request.client("iam")
    for kind, argument, name in holders:
        try:
            getattr(iam, f"delete_{kind}_policy")(
                **{argument: name}, PolicyName=properties["PolicyName"]
            )
        except iam.exceptions.NoSuchEntityException:
            pass  # the holder went first and took its policies with it
