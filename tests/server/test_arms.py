"""Arms of an experiment: differences on the page and in files, and the check of their counts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy.stats import binom

from deniable.server.estimation.share_limits import anytime_rates
from deniable.server.results import Results, csv_chunks, survey_results
from deniable.server.results.breakdown import ARMS_ERROR, are_unequal
from deniable.server.results.document import ByLabel
from deniable.server.results.export import report_lines
from deniable.server.results.sentences import effect_sentences
from deniable.server.store import LabelCounts, PublishedSurvey, RoundTally
from tests.server.results_data import FIRST_ROUND, NOW, draw_cells
from tests.server.surveys import BIT, BROWSERS, choice, until_spring
from tests.server.world import World, world
from tests.survey_texts import label

ARMS = label("search", arms=["control", "new"])
OPEN_ROUND = FIRST_ROUND + 2
Arm = tuple[int, float]  # people, and the share of them who say yes


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data", NOW) as made:
        yield made


def fill(
    here: World, arms: Sequence[Arm], questions: str = BIT, labels: str = ARMS, number: int = 0
) -> PublishedSurvey:
    """Add a round whose people are divided into arms; the second answer of each question varies."""
    published, rng = here.publish(until_spring(questions + labels)), np.random.default_rng(7)
    counts = {}
    for index, (people, share) in enumerate(arms):
        yes = round(people * share)
        cells = [
            draw_cells(q, [people - yes, yes] + [0] * (q.mechanism.answers - 2), rng)
            for q in published.survey.questions
        ]
        counts[0, bytes([index])] = np.concatenate([[people], *cells])
    whole = np.sum([*counts.values()], axis=0)
    by_label = LabelCounts(counts, published.label_key)
    tally = RoundTally(number or FIRST_ROUND, int(whole[0]), whole[1:], by_label)
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, tally)
    return published


def results_of(here: World, published: PublishedSurvey) -> Results:
    return survey_results(published, here.store.tallies(published.sequence), NOW)


def parts_of(results: Results) -> Sequence[ByLabel]:
    return next(period.labels for period in results.rounds if period.labels) or ()


def sentences(results: Results, name: str = "crashed") -> list[str]:
    return [*effect_sentences(parts_of(results), name, results.about[name])]


def test_every_view_shows_which_arm_is_higher_by_how_much_and_how_sure(here: World) -> None:
    published = fill(here, [(20_000, 0.10), (20_100, 0.15)])
    results = results_of(here, published)
    first, second = parts_of(results)
    assert first.effects is msgspec.UNSET
    assert second.effects
    (effect,) = second.effects.questions["crashed"]
    assert (second.effects.against, second.effects.note) == ("control", None)
    assert 0 < effect.low_all == effect.low < effect.estimate < effect.high
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results

    (sentence,) = sentences(results)
    assert sentence.startswith("new is ")
    assert " points higher than control (" in sentence
    assert sentence.endswith("more reports would make it ± 1 point.")

    rows = [*csv.DictReader(io.StringIO("".join(csv_chunks(results, results.rounds))))]
    (row,) = (row for row in rows if row["against"])
    assert (row["by"], row["value"], row["against"]) == ("search", "new", "control")
    assert float(row["estimate"]) == effect.estimate
    assert f"crashed, by search: {sentence}" in " ".join("".join(report_lines(results)).split())

    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert sentence in page
    assert "difference from control" in page
    assert "a difference is an effect of the arm on those who report" in page


def test_arms_that_do_not_differ_have_no_clear_difference(here: World) -> None:
    (sentence,) = sentences(results_of(here, fill(here, [(20_000, 0.10), (20_000, 0.10)])))
    assert sentence.startswith("No clear difference between new and control (−")


def test_only_clear_options_have_a_sentence(here: World) -> None:
    arms = [(30_000, 0.0), (30_000, 0.2)]
    found = sentences(results_of(here, fill(here, arms, choice(BROWSERS))), "browser")
    first, second = BROWSERS[:2]
    assert [sentence.split(" ", 1)[0] for sentence in found[:-1]] == [f"{first}:", f"{second}:"]
    others = len(BROWSERS) - 2
    assert found[-1] == (
        f"No clear difference between new and control in the other {others} options."
    )


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("number", [FIRST_ROUND, OPEN_ROUND])
def test_the_stated_number_of_reports_gives_the_stated_margin(
    here: World, share: float, number: int
) -> None:
    """Within 3 per cent, for closed and for open rounds; the number has two digits."""
    arms = [(4_000, share), (4_000, share)]
    (sentence,) = sentences(results_of(here, fill(here, arms, number=number)))
    words = sentence.split("About ")[1].replace(",", "").split()
    more, margin = int(words[0]), float(words[words.index("±") + 1])
    assert f"± {margin:g} point" in sentence
    people = (8_000 + more) // 2
    larger = fill(here, [(people, share)] * 2, BIT.replace("crashed", "froze"), number=number)
    *_, part = parts_of(results_of(here, larger))
    assert part.effects
    (effect,) = part.effects.questions["froze"]
    assert 50 * (effect.high_all - effect.low_all) == pytest.approx(margin, rel=0.03)


# Arms with unequal numbers of reports


def test_differences_are_withheld_if_the_arms_are_unequal(here: World) -> None:
    """An arm that loses the 6 % of people who crash would seem to have no crashes."""
    published = fill(here, [(20_000, 0.06), (18_800, 0.0)])
    results = results_of(here, published)
    *_, part = parts_of(results)
    assert part.effects
    assert part.effects.questions == {}
    assert "control and new should have about the same number" in (part.effects.note or "")
    assert "but have 20,000 and 18,800" in (part.effects.note or "")
    assert sentences(results) == []
    text = " ".join("".join(report_lines(results)).split())
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    for shown in (text, page):
        assert "ifferences are withheld" in shown
        assert "higher than control" not in shown
    assert "is an effect of the arm" not in page


def test_a_count_of_fewer_than_twenty_reports_is_not_shown(here: World) -> None:
    three = label("search", arms=["control", "new", "newer"])
    arms = [(500, 0.1), (500, 0.1), (5, 0.1)]
    _, *folded = parts_of(results_of(here, fill(here, arms, BIT, three)))
    assert [part.value for part in folded] == ["other"]
    four = label("search", arms=["control", "new", "newer", "newest"])
    arms = [(500, 0.1), (500, 0.1), (5, 0.1), (25, 0.1)]
    _, new, *_ = parts_of(results_of(here, fill(here, arms, BIT, four)))
    assert new.effects
    assert "but have 500 and fewer than 20." in (new.effects.note or "")


def test_arms_with_too_few_reports_are_not_silently_left_out(here: World) -> None:
    """If hardly anyone in an arm reports, showing the other arm would reveal those few."""
    published = fill(here, [(500, 0.1), (5, 0.1)])
    results = results_of(here, published)
    assert not any(period.labels for period in results.rounds)
    sentence = "No results by search: too few reports carry one of its values."
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert sentence in page
    assert sentence in "\n".join(report_lines(results))
    usual = fill(here, [(500, 0.1), (500, 0.1)], BIT.replace("crashed", "froze"))
    page = here.client.get(f"/surveys/{usual.id}", headers=here.bearer("analyst")).text
    assert "Nothing is shown" not in page


def test_values_of_other_labels_need_no_equal_numbers(here: World) -> None:
    platform = label("platform", values=["linux", "mac"])
    published = fill(here, [(20_000, 0.10), (2_000, 0.4)], BIT, platform)
    (sentence,) = sentences(results_of(here, published))
    assert sentence.startswith("mac is ")
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert "difference from linux" in page
    assert "so a difference is not an effect" in page


@pytest.mark.parametrize("reports", [40, 100, 1_001, 20_000])
def test_equal_arms_are_rarely_withheld_at_the_final_reading(reports: int) -> None:
    """The exact binomial test has at most half of the error."""
    ones = range(reports // 2 - 1)
    first = next(n for n in reversed(ones) if are_unequal(n, reports - n, False, ARMS_ERROR))
    assert ARMS_ERROR / 8 < 2 * binom.cdf(first, reports, 0.5) <= ARMS_ERROR / 2
    assert 2 * binom.cdf(first + 1, reports, 0.5) > ARMS_ERROR / 2


def test_equal_arms_are_rarely_withheld_at_any_look() -> None:
    """The exact probability that a fair sequence is ever called unequal within 600 reports.

    A test that ignores repeated looks would exceed its half of the error within these reports.
    """
    for limit_looks, is_sound in ((True, True), (False, False)):
        alive, chance, total = np.array([1.0]), 0.0, 600
        for reports in range(1, total + 1):
            alive = np.convolve(alive, [0.5, 0.5])
            if limit_looks:
                low, high = anytime_rates(np.arange(reports + 1), reports, 1 - ARMS_ERROR / 2)
                outside = (low > 0.5) | (high < 0.5)
            else:
                tails = binom.cdf(np.arange(reports + 1), reports, 0.5)
                outside = np.minimum(tails, tails[::-1]) < ARMS_ERROR / 4
            chance += float(alive[outside].sum())
            alive[outside] = 0
        assert (chance <= ARMS_ERROR / 2) is is_sound
