"""AWS::Events::Rule: a rule of the default bus, with its targets."""

import json
from typing import Any

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit


class EventsRule(ResourceType):
    type = "AWS::Events::Rule"
    create_only = frozenset({"Name"})
    name_property = "Name"

    def create(self, properties: Properties, request: Request) -> Made:
        return self._put(request.name(properties, "Name", longest=64), properties, {}, request)

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        return self._put(physical_id, new, old, request)

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        events, bus = request.client("events"), _bus(properties)
        if targets := properties.get("Targets"):
            events.remove_targets(Rule=physical_id, Ids=[one["Id"] for one in targets], **bus)
        events.delete_rule(Name=physical_id, **bus)

    def _put(self, name: str, new: Properties, old: Properties, request: Request) -> Made:
        events, bus = request.client("events"), _bus(new)
        wanted: dict[str, Any] = {k: v for k, v in new.items() if k != "Targets"}
        if "EventPattern" in wanted:
            wanted["EventPattern"] = json.dumps(wanted["EventPattern"])
        events.put_rule(**fit({**wanted, "Name": name}, "events", "PutRule"))
        targets = new.get("Targets", [])
        kept = {one["Id"] for one in targets}
        gone = [one["Id"] for one in old.get("Targets", []) if one["Id"] not in kept]
        if gone:
            events.remove_targets(Rule=name, Ids=gone, **bus)
        if targets:
            asked = {"Rule": name, "Targets": targets, **bus}
            events.put_targets(**fit(asked, "events", "PutTargets"))
        return Made(name, {"Arn": request.arn("events", f"rule/{name}")})


def _bus(properties: Properties) -> dict[str, str]:
    bus = properties.get("EventBusName")
    return {"EventBusName": bus} if bus else {}
