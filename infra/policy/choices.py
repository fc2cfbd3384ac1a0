"""A setting that was chosen, where it comes from, and why."""

from dataclasses import dataclass
from typing import Literal

from infra.policy.container_settings import ContainerSettings

Origin = Literal["file", "derived", "image"]

Found = dict[str, tuple[object, str]]
"""setting -> (value, or None to leave it to the image; the reason)."""


@dataclass(frozen=True)
class Choice:
    """One setting, where it comes from, and why it is so."""

    name: str
    value: object
    origin: Origin
    reason: str


@dataclass(frozen=True)
class Derived:
    settings: ContainerSettings
    choices: tuple[Choice, ...]


def merged(written: ContainerSettings, found: Found) -> Derived:
    """What the file says over what was found, with every setting accounted for."""
    choices, values = [], {}
    for name in ContainerSettings.model_fields:
        stated = getattr(written, name)
        value, reason = found.get(name, (None, "the image's own default"))
        if stated is not None and name != "batching":
            choices.append(Choice(name, stated, "file", "from the file"))
            values[name] = stated
        elif value is not None:
            origin: Origin = "file" if value == stated else "derived"
            choices.append(Choice(name, value, origin, reason))
            values[name] = value
        else:
            choices.append(Choice(name, None, "image", reason))
    return Derived(ContainerSettings.model_validate(values), tuple(choices))
