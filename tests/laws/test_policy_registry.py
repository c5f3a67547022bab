"""The registry: versions are compared and swapped, the order of globs rules, authors are kept."""

import pytest

from tests.laws.policies import NOTES, Rules, enforcing
from trustfold_projections.laws.policy import DEFAULTS, Policy, policy_of
from trustfold_schemas.amounts import PPM
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import ThresholdNotFoundError
from trustfold_schemas.events import Reversibility
from trustfold_schemas.subject import Subject


def test_a_policy_that_nobody_set_is_in_shadow_and_declares_nothing() -> None:
    """Version 0: shadow, one spot check in 20, and no effect has a threshold."""
    policy = Policy()
    assert (policy.version, policy.mode.mode, policy.mode.spot_check_one_in) == (0, "shadow", 20)
    with pytest.raises(ThresholdNotFoundError, match="no declaration matches"):
        policy.for_effect(NOTES.effect, "reversible")


def test_a_declared_effect_has_the_defaults_of_its_band() -> None:
    """Until a threshold is set, those from the backtest hold; irreversible has min_score 1.0."""
    policy = enforcing().policy
    assert policy.for_effect(NOTES.effect, "reversible") == DEFAULTS["reversible"]
    assert policy.for_effect(NOTES.effect, "irreversible").min_score == PPM


def test_versions_are_compared_and_swapped() -> None:
    """What names another version than the one in force is `stale_version` and changes nothing."""
    rules = enforcing()
    rules.threshold(NOTES.effect, "reversible", expected_version=0, min_samples=1)
    late = rules.threshold(NOTES.effect, "reversible", expected_version=0, min_samples=2)
    assert [refusal.reason for refusal in late.refusals] == [Reason.STALE_VERSION]
    assert rules.policy.for_effect(NOTES.effect, "reversible").min_samples == 1
    rules.threshold(NOTES.effect, "reversible", expected_version=1, min_samples=3)
    made = rules.policy.for_effect(NOTES.effect, "reversible")
    assert (made.min_samples, made.version) == (3, 2)


def test_versions_count_sets_and_removals() -> None:
    """What was never set has version 0; what was removed counts on."""
    rules = enforcing()
    glob = "fs_write:~/notes/*"
    assert rules.policy.effect_version(glob) == 1
    rules.say("effect.removed", effect=glob, expected_version=1)
    assert (rules.policy.effect_version(glob), rules.policy.effect_version("x")) == (2, 0)
    rules.threshold(glob, "reversible", expected_version=0)
    rules.say("threshold.removed", effect=glob, risk_band="reversible", expected_version=1)
    assert rules.policy.threshold_version(glob, "reversible") == 2
    assert rules.policy.threshold_version(glob, "irreversible") == 0
    assert rules.policy.mode.version == 1


def test_a_refused_fact_makes_no_new_version_of_the_policy() -> None:
    """The policy's version counts what was accepted: no stale ones, no duplicates."""
    rules = enforcing()
    before = rules.policy.version
    rules.declare(NOTES.effect, "irreversible", expected_version=7)
    rules.log.take(rules.facts[0])
    assert rules.policy.version == before == 2


def test_a_removal_brings_back_what_ruled_before() -> None:
    """A wider declaration rules again once the narrower one is removed."""
    rules = enforcing()
    rules.declare("fs_write:*", "irreversible")
    assert rules.policy.in_force(NOTES.effect, "reversible") == "reversible"
    rules.say("effect.removed", effect="fs_write:~/notes/*")
    assert rules.policy.in_force(NOTES.effect, "reversible") == "irreversible"


def test_a_removed_threshold_gives_way_to_the_default() -> None:
    """After a removal the default of the band holds."""
    rules = enforcing()
    rules.threshold(NOTES.effect, "reversible")
    rules.say("threshold.removed", effect=NOTES.effect, risk_band="reversible")
    assert rules.policy.for_effect(NOTES.effect, "reversible") == DEFAULTS["reversible"]


@pytest.mark.parametrize("said", ["reversible", "reversible_with_cost", "irreversible"])
@pytest.mark.parametrize("declared", ["reversible", "reversible_with_cost", "irreversible"])
def test_the_callers_word_never_makes_it_easier(
    declared: Reversibility, said: Reversibility
) -> None:
    """Each number asked for is at least what is asked of one who says `reversible`."""
    rules = enforcing(declared)
    rules.threshold("fs_write:*", "reversible_with_cost", min_samples=1)
    of_the_registry = rules.policy.for_effect(NOTES.effect, "reversible")
    made = rules.policy.for_effect(NOTES.effect, said)
    for field in ("min_score", "min_samples", "min_grants", "min_approval_rate"):
        assert getattr(made, field) >= getattr(of_the_registry, field)


def test_a_revocation_names_globs_and_ends_by_its_id() -> None:
    """All three globs must match; reinstating another id changes nothing."""
    rules = enforcing()
    rules.say("trust.revoked", "r1", tool="fs_*", effect="*notes*")
    named = [one.revocation_id for one in rules.policy.revoked_by(NOTES)]
    assert named == ["r1"]
    assert not rules.policy.revoked_by(Subject("", "shell", NOTES.effect))
    rules.say("trust.reinstated", revocation_id="r2")
    assert rules.policy.revoked_by(NOTES)
    rules.say("trust.reinstated", revocation_id="r1")
    assert not rules.policy.revoked_by(NOTES)


def test_a_mode_without_a_number_keeps_the_spot_checks_as_they_were() -> None:
    """Going back to shadow and forth again does not bring the default back."""
    rules = Rules()
    rules.mode("enforce", 7)
    rules.mode("shadow", None)
    assert (rules.policy.mode.mode, rules.policy.mode.spot_check_one_in) == ("shadow", 7)


def test_who_and_why_are_kept() -> None:
    """What is in force names its author and reason."""
    policy = enforcing().policy
    said = policy.declarations["fs_write:~/notes/*"].said
    assert (said.by, said.why) == ("oscar", "reasons")


def test_a_policy_can_be_had_as_it_was() -> None:
    """After the first so many accepted facts of its log, whatever was refused between them."""
    rules = enforcing()
    rules.declare(NOTES.effect, "reversible", expected_version=9)
    rules.declare(NOTES.effect, "irreversible")
    then = policy_of(rules.facts, 2)
    assert then.version == 2
    assert then.in_force(NOTES.effect, "reversible") == "reversible"
    assert policy_of(rules.facts).in_force(NOTES.effect, "reversible") == "irreversible"
