"""A state machine in the Amazon States Language, as far as it is run here: checked, then run.

States: Task, Pass, Wait for seconds, Succeed and Fail, with Retry and Catch. Others are refused by name,
when the state machine is created.
Source: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-amazon-states-language.html and
concepts-error-handling.html beside it (2026-11-28)
"""

import functools
import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from servable_local.aws.sagemaker.transform_records import JsonPath, TransformError

TIMEOUT, FAILED = "States.Timeout", "States.TaskFailed"
_TYPES = ("Task", "Pass", "Wait", "Succeed", "Fail")
_FORMAT = re.compile(r"States\.Format\('((?:[^'\\]|\\.)*)'((?:,\s*[^,()]+)*)\)")
_MAX_RETRIES, _INTERVAL_SECONDS, _BACKOFF = 3, 1.0, 2.0
Data = Any
"""A JSON value."""
Perform = Callable[[str, Data, float | None], Data]
"""Carries out a task: by its resource, parameters and timeout in seconds. Raises `StateError`."""


class StateError(Exception):
    """An error of a state: its name, as the language has it, and its cause."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(f"{error}: {cause}")
        self.error, self.cause = error, cause


class Definition:
    """Raises ValueError for no state machine, NotImplementedError for one that is not run here."""

    def __init__(self, text: str, resources: Mapping[str, object]) -> None:
        """`resources` are those that a Task may name."""
        machine = json.loads(text)
        self.states: Mapping[str, Any] = machine["States"]
        self.first = str(machine["StartAt"])
        self.timeout_seconds: float | None = machine.get("TimeoutSeconds")
        for state in (machine, *self.states.values()):
            if state.get("QueryLanguage", "JSONPath") != "JSONPath":
                raise NotImplementedError("JSONata in state machines is not run here")
        for name, state in self.states.items():
            if state["Type"] not in _TYPES:
                raise NotImplementedError(f"the state {name}: {state['Type']} is not run here")
            if state["Type"] == "Wait" and "Seconds" not in state:
                raise NotImplementedError(
                    f"the state {name}: a Wait without Seconds is not run here"
                )
            if state["Type"] == "Task" and state["Resource"] not in resources:
                raise NotImplementedError(f"the state {name}: {state['Resource']} is not run here")
        nexts = (state["Next"] for state in self.states.values() if state.get("Next"))
        for target in (self.first, *nexts):
            if target not in self.states:
                raise ValueError(f"{target} is not a state of the state machine")

    def run(
        self, data: Data, context: Data, perform: Perform, pause: Callable[[float], None]
    ) -> Data:
        """The output. `pause` lets seconds of the clock pass. Raises `StateError`."""
        name: str | None = self.first
        while name is not None:
            state = self.states[name]
            shown = {**context, "State": {"Name": name}}
            if state["Type"] == "Fail":
                raise StateError(state.get("Error", ""), state.get("Cause", ""))
            try:
                once = functools.partial(_once, state, data, shown, perform, pause)
                data = _retried(state.get("Retry", []), once, pause)
            except StateError as error:
                for catcher in state.get("Catch", []):
                    if _matches(catcher["ErrorEquals"], error.error):
                        caught = {"Error": error.error, "Cause": error.cause}
                        data = _placed(data, catcher.get("ResultPath", "$"), caught)
                        name = str(catcher["Next"])
                        break
                else:
                    raise
                continue
            name = state.get("Next")
        return data


def _matches(names: list[str], error: str) -> bool:
    if "States.ALL" in names or error in names:
        return True
    return FAILED in names and error != TIMEOUT


def _retried(retriers: list[Any], once: Callable[[], Data], pause: Callable[[float], None]) -> Data:
    tries: dict[int, int] = {}
    while True:
        try:
            return once()
        except StateError as error:
            found = [
                (n, r) for n, r in enumerate(retriers) if _matches(r["ErrorEquals"], error.error)
            ]
            number, retrier = found[0] if found else (0, {"MaxAttempts": 0})
            tried = tries.get(number, 0)
            if tried >= retrier.get("MaxAttempts", _MAX_RETRIES):
                raise
            tries[number] = tried + 1
            seconds = retrier.get("IntervalSeconds", _INTERVAL_SECONDS)
            seconds *= retrier.get("BackoffRate", _BACKOFF) ** tried
            pause(min(seconds, retrier.get("MaxDelaySeconds", seconds)))


def _once(
    state: Mapping[str, Any],
    data: Data,
    context: Data,
    perform: Perform,
    pause: Callable[[float], None],
) -> Data:
    chosen = _selected(state.get("InputPath", "$"), data, context)
    given = filled(state["Parameters"], chosen, context) if "Parameters" in state else chosen
    if state["Type"] == "Task":
        result = perform(state["Resource"], given, state.get("TimeoutSeconds"))
    elif state["Type"] == "Wait":
        pause(float(state["Seconds"]))
        result = given
    else:
        result = state.get("Result", given)
    if "ResultSelector" in state:
        result = filled(state["ResultSelector"], result, context)
    return _selected(
        state.get("OutputPath", "$"), _placed(chosen, state.get("ResultPath", "$"), result), context
    )


def _placed(data: Data, path: str | None, result: Data) -> Data:
    """The input with the result at its ResultPath; null keeps the input."""
    if path is None:
        return data
    if path == "$":
        return result
    whole = dict(data) if isinstance(data, dict) else {}
    *folders, last = path.removeprefix("$.").split(".")
    at = whole
    for folder in folders:
        at[folder] = dict(at.get(folder, {}))
        at = at[folder]
    at[last] = result
    return whole


def filled(template: Data, data: Data, context: Data) -> Data:
    """Parameters with a value for each key that ends with `.$`. Raises `StateError`."""
    if isinstance(template, list):
        return [filled(item, data, context) for item in template]
    if not isinstance(template, dict):
        return template
    return {
        key.removesuffix(".$"): _value(str(item), data, context)
        if key.endswith(".$")
        else filled(item, data, context)
        for key, item in template.items()
    }


def _value(text: str, data: Data, context: Data) -> Data:
    if text == "States.UUID()":
        return str(uuid.uuid4())
    if called := _FORMAT.fullmatch(text):
        pieces = [_value(part.strip(), data, context) for part in called[2].split(",")[1:]]
        texts = [piece if isinstance(piece, str) else json.dumps(piece) for piece in pieces]
        return re.sub(r"\\(.)", r"\1", called[1]).replace("{}", "%s") % tuple(texts)
    if text.startswith("'"):
        return text[1:-1]
    return _selected(text, data, context)


def _selected(path: str | None, data: Data, context: Data) -> Data:
    """The path's value in the input, or with `$$` in the context object; null selects nothing."""
    if path is None:
        return {}
    try:
        return JsonPath(path[1:]).of(context) if path.startswith("$$") else JsonPath(path).of(data)
    except (TransformError, ValueError) as error:
        raise StateError("States.Runtime", f"{path}: {error}") from None
