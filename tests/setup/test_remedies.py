"""Every message of the sources: its commands are taken by the programs that they name, and its keys exist."""

import pytest

from tests.remedies import commands_in, problem_with, sentences, unknown_keys_in, unknown_values_in

# Texts that aren't messages: generated pages with placeholders, old names of keys, patterns of actions.
NOT_MESSAGES = ("infra/parameters/reference.py", "infra/parameters/spellings.py")
MESSAGES = [pair for pair in sentences() if not pair[0].startswith(NOT_MESSAGES)]


def test_every_command_in_a_message_is_taken_by_its_program() -> None:
    # model_packaging knows no environment: the rule that shows its message writes the name.
    commands = {
        (place, command.replace("ENV", "prod") if place.startswith("model_packaging/") else command)
        for place, text in MESSAGES
        for command in commands_in(text)
    }
    assert len(commands) > 80  # otherwise they aren't found anymore
    problems = {f"{place}: {one}": problem_with(one) for place, one in commands}
    assert {place: problem for place, problem in problems.items() if problem} == {}


def test_every_key_and_value_with_a_unit_in_a_message_exists() -> None:
    unknown = {place: unknown_keys_in(text) for place, text in MESSAGES}
    assert {place: keys for place, keys in unknown.items() if keys} == {}

    # Arguments of the client are its own.
    texts = [pair for pair in MESSAGES if not pair[0].startswith("packages/servable-client/")]
    unknown = {place: unknown_values_in(text) for place, text in texts if text.count(" ") > 2}
    assert {place: words for place, words in unknown.items() if words} == {}


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("servable pin ENV", "placeholder ENV"),
        ("servable chekc", "No such command 'chekc'. Did you mean 'check'?"),
        ("servable check --agianst v1", "No such option"),
        ("aws sagemaker delete-endpiont --endpoint-name x", "sagemaker has no delete-endpiont"),
        ("aws sagemaker delete-endpoint --endpoint x", "no option endpoint"),
        ("cdk deplyo 'prod/*'", "cdk has no deplyo"),
        ("servable invoke prod --output FILE", None),
        ("{} deploy '{}/*'", None),
    ],
)
def test_a_command_that_its_program_rejects_is_named(command: str, problem: str | None) -> None:
    found = problem_with(command)
    assert (found is None) is (problem is None)
    assert (problem or "") in (found or "")


def test_a_key_that_no_file_has_is_named() -> None:
    said = "set models.ranker.goldn, or variants.{}.{} in environments/prod.toml"
    assert unknown_keys_in(said) == ["models.ranker.goldn"]
    said = "a large model needs a longer ready_timeout_seconds.{}"
    assert unknown_values_in(said) == ["ready_timeout_seconds"]
