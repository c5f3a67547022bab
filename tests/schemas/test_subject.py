"""Subjects and their canonical keys."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_schemas.errors import CallerError, SubjectError
from trustfold_schemas.subject import (
    EFFECT_MAX,
    NAME_MAX,
    NEURON_PREFIX,
    Subject,
    global_subject,
    neuron_subject,
    subject_from_key,
    subject_of,
)

CHARACTERS = st.characters(codec="utf-8")
SUBJECTS = st.builds(
    Subject,
    st.text(CHARACTERS, max_size=NAME_MAX),
    st.text(CHARACTERS, min_size=1, max_size=NAME_MAX),
    st.text(CHARACTERS, min_size=1, max_size=EFFECT_MAX),
)


@given(SUBJECTS)
def test_the_key_is_the_compact_json_array(subject: Subject) -> None:
    """UTF-8, no white space, nothing escaped that JSON does not demand; it reads back."""
    wanted = json.dumps(list(subject), ensure_ascii=False, separators=(",", ":"))
    assert subject.key == wanted.encode()
    assert subject_from_key(subject.key) == subject
    assert subject_from_key(subject.key.decode()) == subject


@given(SUBJECTS, SUBJECTS)
def test_two_subjects_have_two_keys(one: Subject, other: Subject) -> None:
    """Keys are equal exactly where subjects are."""
    assert (one.key == other.key) == (one == other)


@pytest.mark.parametrize(
    "key",
    [
        b'["", "a","b"]',
        b'["","\\u0061","b"]',
        b'["","a\\/","b"]',
        b'["","a","b"]\n',
        b'["a","b"]',
        b'["","a","b",""]',
        b'["","","b"]',
        b'["","a",""]',
        b'["",1,"b"]',
        b'["","\xed\xa0\x80","b"]',
        b'{"tool":"a"}',
        b"",
        '["","\ud800","b"]',
    ],
)
def test_only_a_canonical_key_is_read(key: bytes | str) -> None:
    """One subject has one key: another spelling of it, or no key at all, is a SubjectError."""
    with pytest.raises(SubjectError, match="Expected the "):
        subject_from_key(key)


def test_two_parts_have_the_empty_scope() -> None:
    """(tool, effect) means scope ""."""
    assert subject_of("shell", "invoke") == subject_of("", "shell", "invoke")
    assert subject_of("shell", "invoke") == Subject("", "shell", "invoke")


@pytest.mark.parametrize(
    "parts",
    [
        ("shell",),
        ("", "", "shell", "invoke"),
        ("", "invoke"),
        ("shell", ""),
        ("", "x" * (NAME_MAX + 1), "invoke"),
        ("x" * (NAME_MAX + 1), "shell", "invoke"),
        ("", "shell", "x" * (EFFECT_MAX + 1)),
        ("", "\ud800", "invoke"),
        ("", 1, "invoke"),
    ],
)
def test_what_is_no_subject_is_refused(parts: tuple[str, ...]) -> None:
    """Outside its limits a subject is the caller's error, and a ValueError to others."""
    with pytest.raises(SubjectError, match="Expected") as refusal:
        subject_of(*parts)
    assert isinstance(refusal.value, CallerError)
    assert isinstance(refusal.value, ValueError)


def test_limits_count_code_points() -> None:
    """A character beyond the Basic Multilingual Plane counts once."""
    assert len(subject_of("𝕏" * NAME_MAX, "𝕏" * NAME_MAX, "𝕏" * EFFECT_MAX).tool) == NAME_MAX


def test_the_subjects_that_have_names() -> None:
    """A neuron and the global subject of an outcome; only the latter is global."""
    assert neuron_subject("a", "alpha") == ("a", "neuron:alpha", "invoke")
    assert global_subject("a", "failed") == ("a", "runtime", "failed")
    assert global_subject("", "failed").is_global
    assert not neuron_subject("", "alpha").is_global
    longest = "x" * (NAME_MAX - len(NEURON_PREFIX))
    assert subject_of(*neuron_subject("", longest)) == neuron_subject("", longest)
