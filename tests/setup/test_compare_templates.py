"""What scripts/compare_templates.py shows of two templates, and what it masks."""

from scripts.compare_templates import mask_text

KEY = "ab" * 32
OTHER_KEY = "cd" * 32


def shown(old: str, new: str) -> bool:
    """Whether the difference is still there after masking."""
    return mask_text(old) != mask_text(new)


def test_another_property_is_shown_and_what_hangs_on_our_own_sources_is_masked() -> None:
    assert shown('"Threshold": 1', '"Threshold": 2')
    assert shown("Rollbackprimary5xx4d2f12d8B5EB0BE2", "Rollbacknext5xx4d2f12d8B5EB0BE2")
    assert shown("Alarmsprimary5xx1D5CE55E", "Alarmsprimary5xx1D5CE55F")
    assert mask_text(f"s3://assets/{KEY}.tar.gz") == "s3://assets/<SHA-256>.tar.gz"
    for old, new in [
        (f"s3://assets/{KEY}.tar.gz", f"s3://assets/{OTHER_KEY}.tar.gz"),
        ("RolloutRollbackprimary5xx4d2f12d8B5EB0BE2", "RolloutRollbackprimary5xx00aa11bb01234567"),
        ("ranker-prod-rollback-primary-5xx-4d2f12d8", "ranker-prod-rollback-primary-5xx-00aa11bb"),
        ("VariantaModelRolePolicy553eca7e964F3248", "VariantaModelRolePolicyb8a66fa522E8F579"),
    ]:
        assert not shown(old, new)
