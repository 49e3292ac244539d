"""Names as DNS carries them, by property; the rows are in test_conformance.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.resolve.resolver import (
    MAX_LABEL,
    MAX_NAME,
    BadNameError,
    RecordType,
    answer_without_query,
    parse_labels,
)

LABELS = st.lists(st.text("aZ-_\xfc", min_size=1, max_size=20), min_size=1, max_size=8)


@given(st.text(max_size=300))
def test_any_text_is_labels_that_fit_or_the_named_error(text: str) -> None:
    try:
        labels = parse_labels(text)
    except BadNameError:
        return
    assert all(0 < len(label) <= MAX_LABEL for label in labels)
    assert b".".join(labels) == text.encode().removesuffix(b".")
    assert sum(map(len, labels)) + len(labels) - 1 <= MAX_NAME


@given(LABELS, st.sampled_from(RecordType))
def test_only_names_that_end_in_the_label_localhost_are_answered_here(
    labels: list[str], rtype: RecordType
) -> None:
    octets = tuple(label.encode() for label in labels)
    assert answer_without_query(octets, rtype) is None
    assert answer_without_query((*octets, b"localHOST"), rtype) is not None
    assert answer_without_query((*octets, b"xlocalhost"), rtype) is None
    assert answer_without_query((b"localhost", *octets), rtype) is None
