"""Physical names as CloudFormation makes them: stack, logical name, random ending."""

import secrets
import string

_LETTERS = string.ascii_uppercase + string.digits
_ENDING_LENGTH = 12


def physical_name(stack_name: str, logical_id: str, longest: int) -> str:
    """At most `longest` characters; the random ending is never cut."""
    ending = "".join(secrets.choice(_LETTERS) for _ in range(_ENDING_LENGTH))
    room = longest - _ENDING_LENGTH - 2
    logical = logical_id[: max(room // 2, room - len(stack_name))]
    stack = stack_name[: room - len(logical)]
    return f"{stack}-{logical}-{ending}"
