"""Filter patterns match what AWS's own page says that they match.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
"""

import pytest

from servable_local.aws.moto_patches.log_patterns import compile_pattern

PAGE = '127.0.0.1 Prod frank [10/Oct/2000:13:25:15 -0700] "GET /index.html HTTP/1.0" 404 1534'
EVENT = (
    '{"eventType": "UpdateTrail", "sourceIPAddress": "111.111.111.111", "arrayKey": ["value", '
    '"another value"], "objectList": [{"name": "a", "id": 1}, {"name": "b", "id": 2}], '
    '"SomeObject": null, "ThisFlag": true}'
)
NAMES = "ip, user, username, timestamp"


@pytest.mark.parametrize(
    ("pattern", "line", "wanted"),
    [
        ("", "anything", True),
        ("ERROR", "[ERROR 400] BAD REQUEST", True),
        ("ERROR", "[error 400] BAD REQUEST", False),
        ("ERROR REQUEST", "[ERROR 400] BAD REQUEST", True),
        ("ERROR REQUEST", "[ERROR 401] UNAUTHORIZED", False),
        ('"BAD REQUEST"', "[ERROR 400] BAD REQUEST", True),
        ('"BAD REQUEST"', "BAD luck, REQUEST lost", False),
        ("?ERROR ?WARN", "[WARN 1] disk", True),
        ('?"two words" ?WARN', "[ERROR 1] two words", True),
        ("?ERROR ?WARN", "[INFO] fine", False),
        ("ERROR -ARGUMENTS", "[ERROR 419] MISSING ARGUMENTS", False),
        ("ERROR -ARGUMENTS", "[ERROR 400] BAD REQUEST", True),
        (f"[{NAMES}, request, status_code, bytes]", PAGE, True),
        (f"[{NAMES}, request =*.html*, status_code = 4*, bytes]", PAGE, True),
        (f"[{NAMES}, request =*.php*, status_code = 4*, bytes]", PAGE, False),
        (f"[{NAMES}, request, status_code = 404 || status_code = 410, bytes]", PAGE, True),
        (f"[{NAMES}, request, status_code != 404 && status_code != 410, bytes]", PAGE, False),
        (f"[{NAMES}, request, status_code, bytes > 1000]", PAGE, True),
        (f"[{NAMES}, request, status_code, bytes > 2000]", PAGE, False),
        ("[..., request =*.html*, status_code = 4*, bytes]", PAGE, True),
        ("[..., status_code = 4*]", PAGE, False),
        (f"[{NAMES}, request, status_code, bytes, more]", PAGE, False),
        ("[w1=ERROR, w2]", "ERROR 09/25/2014 something went wrong", True),
        ("[w1=ERROR, w2]", "INFO 09/25/2014 something went well", False),
        ('{ $.eventType = "UpdateTrail" }', EVENT, True),
        ('{$.eventType="Update*"}', EVENT, True),
        ('{ $.eventType != "UpdateTrail" }', EVENT, False),
        ("{ $.sourceIPAddress != 123.123.* }", EVENT, True),
        ('{ $.arrayKey[0] = "value" }', EVENT, True),
        ('{ $.arrayKey[*] = "another value" }', EVENT, True),
        ('{ $.arrayKey[0] = "another value" }', EVENT, False),
        ("{ $.objectList[1].id = 2 }", EVENT, True),
        ("{ $.SomeObject IS NULL }", EVENT, True),
        ("{ $.SomeOtherObject IS NULL }", EVENT, False),
        ("{ $.SomeOtherObject NOT EXISTS }", EVENT, True),
        ("{ $.ThisFlag IS TRUE }", EVENT, True),
        ("{ $.ThisFlag IS FALSE }", EVENT, False),
        ("{ $.objectList[0].id >= 1e0 && $.objectList[0].id < 2 }", EVENT, True),
        ('{ ($.a = 1 || $.ThisFlag IS TRUE) && $.eventType = "x" }', EVENT, False),
        ("{ $.a = 1 || $.ThisFlag IS TRUE && $.eventType = %^Up% }", EVENT, True),
        ("{ $.a = 1 }", "a = 1", False),
    ],
)
def test_a_pattern_matches_what_the_page_says(pattern: str, line: str, wanted: bool) -> None:
    assert compile_pattern(pattern)(line) is wanted


@pytest.mark.parametrize(
    "pattern", ["{ $.latency }", "{ $.a = 1", "{ $.a < x }", "{ a = 1 }", "%[a-z]%", "[a, b ~ 2]"]
)
def test_what_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not"):
        compile_pattern(pattern)
