"""What clients send, in our own terms: a MetricDatum's samples, a moment without its zone."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from servable_local.aws.cloudwatch.errors import InvalidParameterValueError
from servable_local.aws.cloudwatch.samples import Samples


def samples_of(datum: Mapping[str, Any]) -> Samples:
    samples = Samples()
    if "Values" in datum:
        counts = datum.get("Counts") or [1.0] * len(datum["Values"])
        if len(counts) != len(datum["Values"]):
            raise InvalidParameterValueError(
                "The parameters MetricData.member.1.Values and MetricData.member.1.Counts "
                "must be of the same size."
            )
        for value, count in zip(datum["Values"], counts, strict=True):
            samples.add(float(value), float(count))
    elif "StatisticValues" in datum:
        known = datum["StatisticValues"]
        samples.add_set(
            count=float(known["SampleCount"]),
            total=float(known["Sum"]),
            least=float(known["Minimum"]),
            most=float(known["Maximum"]),
        )
    elif "Value" in datum:
        samples.add(float(datum["Value"]))
    else:
        raise InvalidParameterValueError(
            "At least one of the parameters MetricData.member.1.Value, "
            "MetricData.member.1.Values and MetricData.member.1.StatisticValues is required."
        )
    return samples


def naive(moment: Any) -> Any:
    """As the clock has it: UTC without saying so."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    elif isinstance(moment, int | float):
        moment = datetime(1970, 1, 1) + timedelta(seconds=moment)
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment.astimezone(UTC).replace(tzinfo=None)
    return moment
