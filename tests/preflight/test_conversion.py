"""What the container converts itself, as golden requests show it."""

from pathlib import Path

from infra.parameters.finding import Severity
from infra.preflight.check import check_all
from tests.preflight.overlay import overlaid

GOLDEN = "models.ranker.golden.request"
ROLLED = 'rollout = { strategy = "canary", golden_requests = { body = "golden/big.csv" } }'


def found(project: Path, lines: str) -> list[tuple[str, Severity]]:
    all_found = check_all(overlaid(project, lines))
    return [(one.key, one.severity) for one in all_found if one.rule == "conversion-cost"]


def test_golden_requests_of_csv_are_measured_also_of_an_update(project: Path) -> None:
    for size, findings in [(250_000, []), (250_001, [(GOLDEN, Severity.WARNING)])]:
        (project / "golden").mkdir(exist_ok=True)
        (project / "golden" / "big.csv").write_bytes(b"1" * size)
        assert found(project, f'{GOLDEN} = "golden/big.csv"') == findings

    (project / "golden").mkdir(exist_ok=True)
    (project / "golden" / "big.csv").write_bytes(b"1" * 300_000)
    assert found(project, ROLLED) == [("rollout.golden_requests.body", Severity.WARNING)]


def test_csv_without_a_size_is_not_checked_and_costs_nothing_with_a_handler(project: Path) -> None:
    lines = 'traffic.content_types = ["text/csv"]'
    assert found(project, lines) == [("traffic.content_types", Severity.NOT_CHECKED)]
    lines = 'traffic.content_types = ["text/csv"]\nmodels.ranker.handler = "servable"'
    assert found(project, lines) == []
