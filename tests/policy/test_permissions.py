"""The permissions of a role follow the resources that a deployment has; a generated page lists all."""

from pathlib import Path

from infra.policy.permissions import PERMISSIONS, PLACES, select_permissions
from infra.preflight.reference import render_permissions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "permissions.md"
EVERY_PLACE = {place: ["arn"] for place in PLACES}


def test_the_page_lists_every_permission() -> None:
    assert render_permissions() == PAGE.read_text(encoding="utf-8")


def test_a_deployment_has_the_permissions_of_its_resources() -> None:
    assert select_permissions(EVERY_PLACE) == list(PERMISSIONS)
    assert [row.capability for row in select_permissions({})] == [
        "log in to the image's registry",
        "publish metrics",
    ]


def test_a_resource_that_is_absent_needs_no_permission() -> None:
    for absent in PLACES:
        places = EVERY_PLACE | {absent: []}
        concerned = [row for row in PERMISSIONS if absent in (*row.on, *row.needs)]
        assert select_permissions(places) == [row for row in PERMISSIONS if row not in concerned]
