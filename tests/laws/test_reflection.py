"""The reflection filter shows what stands on trust, best first, and says why it drops the rest."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from trustfold_projections.laws.reflection import LEAST, Proposal, reflect
from trustfold_schemas.scores import TrustScore
from trustfold_schemas.subject import Subject

Known = dict[Subject, TrustScore | Literal["corrupt"] | None]
SUBJECTS = [Subject("", "shell", f"shell:{letter}") for letter in "abcdef"]

scores = st.floats(0, 1).map(lambda raw: replace(TrustScore.empty(SUBJECTS[0]), raw_score=raw))
known_of_all = st.fixed_dictionaries(
    {subject: st.none() | st.just("corrupt") | scores for subject in SUBJECTS}
)
proposals_of_any = st.lists(
    st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=3), max_size=12
).map(lambda told: [Proposal(f"p{number}", tuple(named)) for number, named in enumerate(told)])


@given(proposals_of_any, known_of_all)
def test_every_proposal_is_kept_or_dropped_by_its_least_trusted_subject(
    proposals: list[Proposal], known: Known
) -> None:
    """An oracle in three lines: all subjects known and the lowest of them at 0.5 or above."""
    made = reflect(proposals, known.__getitem__)
    raws = {
        one.id: [score.raw_score if isinstance(score, TrustScore) else -1.0 for score in scores]
        for one in proposals
        for scores in [[known[subject] for subject in one.subjects]]
    }
    kept = {one.proposal.id: one.raw_score for one in made.kept}
    assert kept == {name: min(some) for name, some in raws.items() if min(some) >= LEAST}
    assert [one.raw_score for one in made.kept] == sorted(kept.values(), reverse=True)
    assert len(made.kept) + len(made.dropped) == len(proposals)
    assert [one.proposal.id for one in made.dropped] == [
        one.id for one in proposals if one.id not in kept
    ]


def test_what_is_dropped_says_for_whom() -> None:
    """The reason and the subject are named; without history and corrupt are told apart."""
    good, bad, ghost, broken = SUBJECTS[:4]
    known: Known = {
        good: replace(TrustScore.empty(good), raw_score=0.5),
        bad: replace(TrustScore.empty(bad), raw_score=0.49),
        ghost: None,
        broken: "corrupt",
    }
    told = [
        Proposal("1", (good,)),
        Proposal("2", (good, bad)),
        Proposal("3", (good, ghost)),
        Proposal("4", (broken,)),
    ]
    made = reflect(told, known.__getitem__)
    assert [(one.proposal.id, one.subject) for one in made.kept] == [("1", good)]
    assert [(one.proposal.id, one.reason, one.subject) for one in made.dropped] == [
        ("2", "below", bad),
        ("3", "no_history", ghost),
        ("4", "corrupt", broken),
    ]


def test_equal_proposals_keep_their_order() -> None:
    """Nobody is preferred by name."""
    score = replace(TrustScore.empty(SUBJECTS[0]), raw_score=0.7)
    told = [Proposal(name, (SUBJECTS[0],)) for name in ("b", "a", "c")]
    assert [one.proposal.id for one in reflect(told, lambda _: score).kept] == ["b", "a", "c"]
