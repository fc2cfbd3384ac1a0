"""One alarm: what was asked for, its state, and everything that happened to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from servable_local.aws.cloudwatch.m_of_n import State

Kind = Literal["MetricAlarm", "CompositeAlarm"]
# AWS keeps 30 days; here a long-running alarm must not fill the memory.
_LONGEST_HISTORY = 1000
CREATED = "Unchecked: Initial alarm creation"


def stamp(moment: datetime) -> str:
    """As CloudWatch writes times inside its JSON."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}+0000"


@dataclass
class Alarm:
    """`request` is PutMetricAlarm's or PutCompositeAlarm's, without its tags."""

    kind: Kind
    name: str
    arn: str
    request: dict[str, Any]
    configured: datetime
    state: State = "INSUFFICIENT_DATA"
    reason: str = CREATED
    reason_data: str = "{}"
    tags: dict[str, str] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    updated: datetime = field(init=False)
    transitioned: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.updated = self.transitioned = self.configured

    @property
    def acts(self) -> bool:
        return bool(self.request.get("ActionsEnabled", True))

    def configure(self, request: dict[str, Any], at: datetime) -> None:
        """Put again: its state stays, as on AWS."""
        self.request, self.configured = request, at
        self.record(at, "ConfigurationUpdate", f'Alarm "{self.name}" updated', {"type": "Update"})

    def change(self, state: State, reason: str, reason_data: str, at: datetime) -> State:
        """Returns the state before."""
        before = self.state
        data = {
            "version": "1.0",
            "oldState": {
                "stateValue": before,
                "stateReason": self.reason,
                "stateReasonData": _parsed(self.reason_data),
            },
            "newState": {
                "stateValue": state,
                "stateReason": reason,
                "stateReasonData": _parsed(reason_data),
            },
        }
        self.state, self.reason, self.reason_data = state, reason, reason_data
        self.updated = at
        if before != state:
            self.transitioned = at
        self.record(at, "StateUpdate", f"Alarm updated from {before} to {state}", data)
        return before

    def record(self, at: datetime, kind: str, summary: str, data: Mapping[str, Any]) -> None:
        self.history.append(
            {
                "AlarmName": self.name,
                "AlarmType": self.kind,
                "Timestamp": at,
                "HistoryItemType": kind,
                "HistorySummary": summary,
                "HistoryData": json.dumps(data),
            }
        )
        del self.history[:-_LONGEST_HISTORY]

    def describe(self) -> dict[str, Any]:
        """As DescribeAlarms has it."""
        shown = {
            "ActionsEnabled": True,
            "OKActions": [],
            "AlarmActions": [],
            "InsufficientDataActions": [],
            **self.request,
            "AlarmName": self.name,
            "AlarmArn": self.arn,
            "AlarmConfigurationUpdatedTimestamp": self.configured,
            "StateValue": self.state,
            "StateReason": self.reason,
            "StateReasonData": self.reason_data,
            "StateUpdatedTimestamp": self.updated,
            "StateTransitionedTimestamp": self.transitioned,
        }
        if self.kind == "MetricAlarm":
            shown.setdefault("Dimensions", [])
        return shown


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
