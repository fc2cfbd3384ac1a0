"""A state machine in the Amazon States Language, as far as it is emulated: checked, then run.

States: Task, Pass, Wait for seconds, Parallel, Succeed, and Fail, with Retry and Catch. Others
are rejected by name when the state machine is created. Source:
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-amazon-states-language.html,
concepts-error-handling.html and state-parallel.html next to it (2026-11-28); that a Parallel
state fails with the error of its branch: recorded from AWS (2023-12-16) in
test_base_scenarios.snapshot.json, test_parallel_state_catch, of
https://github.com/localstack/localstack
"""

import copy
import functools
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from servable_tensors.records import JsonPath, TransformError

TIMEOUT, FAILED = "States.Timeout", "States.TaskFailed"
_TYPES = ("Task", "Pass", "Wait", "Parallel", "Succeed", "Fail")
_FORMAT = re.compile(r"States\.Format\('((?:[^'\\]|\\.)*)'((?:,\s*[^,()]+)*)\)")
_MAX_RETRIES, _INTERVAL_SECONDS, _BACKOFF = 3, 1.0, 2.0
Data = Any
"""A JSON value."""
Stopped = Callable[[], bool]


@dataclass(frozen=True)
class Steps:
    """The effects of states outside their machine. Each raises `AbortedError` if `stopped`."""

    perform: Callable[[str, Data, float | None, Stopped], Data]
    """Carries out a task: by its resource, parameters and timeout in seconds. Raises `StateError`."""
    wait: Callable[[float, Stopped], None]
    """Ends when so many seconds of the clock have passed."""
    pause: Callable[[float, Stopped], None]
    """Waits before a retry, except on a clock that stands still."""
    stopped: Stopped
    """Whether the execution, or the Parallel state around this branch, is over."""


class StateError(Exception):
    """An error of a state: its name in the language, and its cause."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(f"{error}: {cause}")
        self.error, self.cause = error, cause


class AbortedError(Exception):
    """The execution was stopped, a different branch failed, or the local AWS is ending."""


class Definition:
    """A state machine. Raises ValueError if invalid, NotImplementedError if not emulated."""

    def __init__(self, text: str, resources: Mapping[str, object]) -> None:
        """Parse and check the text. `resources` are those that a Task may use."""
        self._machine: Mapping[str, Any] = json.loads(text)
        self.timeout_seconds: float | None = self._machine.get("TimeoutSeconds")
        _check_machine(self._machine, resources)

    def run(self, data: Data, context: Data, steps: Steps) -> Data:
        """Run the states, and return the output. Raises `StateError`, `AbortedError`."""
        return _run_machine(self._machine, data, context, steps)


def _check_machine(machine: Mapping[str, Any], resources: Mapping[str, object]) -> None:
    states: Mapping[str, Any] = machine["States"]
    for state in (machine, *states.values()):
        if state.get("QueryLanguage", "JSONPath") != "JSONPath":
            raise NotImplementedError("JSONata in state machines isn't emulated by the local AWS")
    for name, state in states.items():
        unknown = None
        if state["Type"] not in _TYPES:
            unknown = state["Type"]
        elif state["Type"] == "Wait" and "Seconds" not in state:
            unknown = "a Wait without Seconds"
        elif state["Type"] == "Task" and state["Resource"] not in resources:
            unknown = state["Resource"]
        if unknown:
            problem = f"the state {name}: {unknown} isn't emulated by the local AWS"
            raise NotImplementedError(problem)
        for branch in _list_branches(state):
            _check_machine(branch, resources)
    for target in (machine["StartAt"], *_list_targets(states)):
        if target not in states:
            raise ValueError(f"{target} is not a state of the state machine")


def _list_branches(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(state["Branches"]) if state["Type"] == "Parallel" else []


def _list_targets(states: Mapping[str, Any]) -> Iterator[str]:
    """Yield the states that follow others. Raises ValueError for one without Next or End."""
    for name, state in states.items():
        if state["Type"] not in ("Succeed", "Fail") and ("Next" in state) == ("End" in state):
            raise ValueError(f"the state {name} needs either Next or End")
        if "Next" in state:
            yield state["Next"]
        for catcher in state.get("Catch", []):
            yield catcher["Next"]


def _run_machine(machine: Mapping[str, Any], data: Data, context: Data, steps: Steps) -> Data:
    name: str | None = machine["StartAt"]
    while name is not None:
        state = machine["States"][name]
        shown = {**context, "State": {"Name": name}}
        if state["Type"] == "Fail":
            raise StateError(state.get("Error", ""), state.get("Cause", ""))
        try:
            once = functools.partial(_run_once, state, data, shown, steps)
            data = _run_with_retries(state.get("Retry", []), once, steps)
        except StateError as error:
            for catcher in state.get("Catch", []):
                if _is_match(catcher["ErrorEquals"], error.error):
                    caught = {"Error": error.error, "Cause": error.cause}
                    data = _place_result(data, catcher.get("ResultPath", "$"), caught)
                    name = str(catcher["Next"])
                    break
            else:
                raise
            continue
        name = state.get("Next")
    return data


def _run_parallel(state: Mapping[str, Any], data: Data, context: Data, steps: Steps) -> list[Data]:
    """Return the outputs of the branches, in order. The first branch that fails stops the rest."""
    ended = threading.Event()
    inside = replace(steps, stopped=lambda: ended.is_set() or steps.stopped())
    failures: list[Exception] = []

    def run_branch(branch: Mapping[str, Any]) -> Data:
        try:
            return _run_machine(branch, copy.deepcopy(data), context, inside)
        except Exception as error:
            failures.append(error)
            ended.set()
            return None

    branches = _list_branches(state)
    with ThreadPoolExecutor(len(branches), thread_name_prefix="branch") as pool:
        outputs = list(pool.map(run_branch, branches))
    if failures:
        raise failures[0]
    return outputs


def _is_match(names: list[str], error: str) -> bool:
    if "States.ALL" in names or error in names:
        return True
    return FAILED in names and error != TIMEOUT


def _run_with_retries(retriers: list[Any], once: Callable[[], Data], steps: Steps) -> Data:
    tries: dict[int, int] = {}
    while True:
        try:
            return once()
        except StateError as error:
            found = [
                (n, r) for n, r in enumerate(retriers) if _is_match(r["ErrorEquals"], error.error)
            ]
            number, retrier = found[0] if found else (0, {"MaxAttempts": 0})
            tried = tries.get(number, 0)
            if tried >= retrier.get("MaxAttempts", _MAX_RETRIES):
                raise
            tries[number] = tried + 1
            seconds = retrier.get("IntervalSeconds", _INTERVAL_SECONDS)
            seconds *= retrier.get("BackoffRate", _BACKOFF) ** tried
            steps.pause(min(seconds, retrier.get("MaxDelaySeconds", seconds)), steps.stopped)


def _run_once(state: Mapping[str, Any], data: Data, context: Data, steps: Steps) -> Data:
    chosen = _select_path(state.get("InputPath", "$"), data, context)
    given = chosen
    if "Parameters" in state:
        given = fill_parameters(state["Parameters"], chosen, context)
    if state["Type"] == "Task":
        timeout_seconds = state.get("TimeoutSeconds")
        result = steps.perform(state["Resource"], given, timeout_seconds, steps.stopped)
    elif state["Type"] == "Wait":
        steps.wait(float(state["Seconds"]), steps.stopped)
        result = given
    elif state["Type"] == "Parallel":
        result = _run_parallel(state, given, context, steps)
    else:
        result = state.get("Result", given)
    if "ResultSelector" in state:
        result = fill_parameters(state["ResultSelector"], result, context)
    output = _place_result(chosen, state.get("ResultPath", "$"), result)
    return _select_path(state.get("OutputPath", "$"), output, context)


def _place_result(data: Data, path: str | None, result: Data) -> Data:
    """Return the input with the result at its ResultPath; null keeps the input."""
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


def fill_parameters(template: Data, data: Data, context: Data) -> Data:
    """Return parameters with a value for each key that ends with `.$`. Raises `StateError`."""
    if isinstance(template, list):
        return [fill_parameters(item, data, context) for item in template]
    if not isinstance(template, dict):
        return template
    return {
        key.removesuffix(".$"): _evaluate(str(item), data, context)
        if key.endswith(".$")
        else fill_parameters(item, data, context)
        for key, item in template.items()
    }


def _evaluate(text: str, data: Data, context: Data) -> Data:
    if text == "States.UUID()":
        return str(uuid.uuid4())
    if called := _FORMAT.fullmatch(text):
        pieces = [_evaluate(part.strip(), data, context) for part in called[2].split(",")[1:]]
        texts = [piece if isinstance(piece, str) else json.dumps(piece) for piece in pieces]
        if called[1].count("{}") != len(texts):
            raise StateError("States.IntrinsicFailure", f"{text}: needs a value for each {{}}")
        return re.sub(r"\\(.)|{}", lambda found: found[1] or texts.pop(0), called[1])
    if text.startswith("'"):
        return text[1:-1]
    return _select_path(text, data, context)


def _select_path(path: str | None, data: Data, context: Data) -> Data:
    """Return the path's value in the input, or with `$$` in the context; null selects nothing."""
    if path is None:
        return {}
    inner, source = (path[1:], context) if path.startswith("$$") else (path, data)
    try:
        return JsonPath(inner).select(source)
    except (TransformError, ValueError) as error:
        raise StateError("States.Runtime", f"{path}: {error}") from None
