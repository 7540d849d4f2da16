"""A question for each mechanism, in TOML, with answers to it: for tests that go through all."""

from deniable.shared.privacy.mechanisms import mechanisms

SURVEY = """\
[survey]
name = "all-mechanisms"
title = "Each mechanism"
purpose = "A test."
owner = "Tests"
opens = 2026-12-01
closes = 2026-12-31
round = "{period}"
minimum_reports = 1
"""
OPTIONS = 11  # two bytes of a set, five bits of padding, and three options in a subset
KINDS = {
    "bit": 'kind = "bit"',
    "number": 'kind = "number"\nlow = -1\nhigh = 3',
    "choice": f'kind = "choice"\noptions = {[chr(97 + n) for n in range(OPTIONS)]}',
}
ANSWERS: dict[str, list[object]] = {  # the first is held by most people
    "bit": [True, False],
    "number": [-0.9, 2.25, 3, 0.1],
    "choice": ["c", "a", "d", "b"],
}


def question(mechanism: str, epsilon: str = "1", name: str = "it") -> str:
    """At sizes where nothing degenerates: eleven options, five steps."""
    named = mechanisms()[mechanism]
    grid = "grid = 5\n" if named.kind == "number" and len(named.sizes) > 1 else ""
    return (
        f'\n[[question]]\nname = "{name}"\n{KINDS[named.kind]}\nepsilon = "{epsilon}"\n'
        f'mechanism = "{mechanism}"\n{grid}'
    )


def survey(names: list[str], period: str = "month") -> str:
    """A question for each of these mechanisms; its name is the mechanism's, with underscores."""
    asked = [question(name, name=name.replace("-", "_")) for name in names]
    return SURVEY.format(period=period) + "".join(asked)
