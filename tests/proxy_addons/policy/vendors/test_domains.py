"""A profile's host rules and an agent's lists, to the one list that a vendor takes."""

from __future__ import annotations

import pytest

from proxy_addons.policy.vendors.domains import NarrowError, narrow_domains
from tests.proxy_addons.policy.vendors.cases import rules

type Lists = tuple[list[str] | None, list[str] | None]

NARROWED: dict[str, tuple[Lists, Lists, Lists]] = {
    # (allow, deny) of the profile, (allow, block) asked, (allow, block) that leave
    "everything, and nothing asked: no list": ((["*"], []), (None, None), (None, None)),
    "everything on 443, and nothing asked": ((["*:443"], []), (None, None), (None, None)),
    "everything, and some asked": ((["*"], []), (["a.example"], None), (["a.example"], None)),
    "everything, and some blocked": ((["*"], []), (None, ["a.example"]), (None, ["a.example"])),
    "some, and nothing asked": (
        (["a.example", "b.example"], []),
        (None, None),
        (["a.example", "b.example"], None),
    ),
    "a wildcard goes out as the name that covers it": (
        (["*.a.example"], []),
        (None, None),
        (["a.example"], None),
    ),
    "name and wildcard are one entry": (
        (["a.example", "*.a.example"], []),
        (None, None),
        (["a.example"], None),
    ),
    "other ports allow nothing": ((["a.example", "b.example:8443"], []), (None, None), (["a.example"], None)),
    "asked below a wildcard": ((["*.a.example"], []), (["b.a.example"], None), (["b.a.example"], None)),
    "asked above what is allowed": ((["b.a.example"], []), (["example"], None), (["b.a.example"], None)),
    "asked more than is allowed": (
        (["a.example"], []),
        (["a.example", "z.test"], None),
        (["a.example"], None),
    ),
    "a deny alone is a block list": ((["*"], ["a.example"]), (None, None), (None, ["a.example"])),
    "a deny of subdomains blocks the apex too": (
        (["*"], ["*.a.example"]),
        (None, None),
        (None, ["a.example"]),
    ),
    "denied and blocked add up": (
        (["*"], ["a.example"]),
        (None, ["b.example"]),
        (None, ["a.example", "b.example"]),
    ),
    "a name both allowed and denied goes": (
        (["a.example", "b.example"], ["a.example"]),
        (None, None),
        (["b.example"], None),
    ),
    "a name allowed and blocked goes": (
        (["a.example", "b.example"], []),
        (None, ["a.example"]),
        (["b.example"], None),
    ),
    "a name below a blocked one goes": (
        (["b.a.example", "z.test"], []),
        (None, ["a.example"]),
        (["z.test"], None),
    ),
    "asked, but denied": ((["*"], ["*.a.example"]), (["b.a.example", "z.test"], None), (["z.test"], None)),
    "a denied port is the whole host": ((["*"], ["a.example:8443"]), (None, None), (None, ["a.example"])),
    "plain http denied everywhere bears on nothing": ((["*"], ["*:80"]), (None, None), (None, None)),
    "names are written in their one form": ((["*"], []), (["A.Example."[:-1]], None), (["a.example"], None)),
}


@pytest.mark.parametrize("sentence", NARROWED)
def test_narrowed(sentence: str) -> None:
    (allow, deny), (asked, blocked), (left, left_out) = NARROWED[sentence]
    found = narrow_domains(rules(allow or (), deny or ()), asked, blocked)

    assert (list(found.allow) if found.allow else None, list(found.block) if found.block else None) == (
        left,
        left_out,
    )


REFUSED: dict[str, tuple[Lists, Lists, str]] = {
    "nothing in common": ((["a.example"], []), (["b.example"], None), "nothing is left"),
    "below a name that is allowed alone": ((["a.example"], []), (["b.a.example"], None), "nothing is left"),
    "a list that no vendor takes": ((["*"], []), (["a.example"] * 201, None), "at most 200"),
    "host rules that no vendor takes": (([f"n{n}.example" for n in range(1001)], []), (None, None), "more than 1000"),
    "a profile that allows nothing": (([], []), (None, None), "nothing is left"),
    "nothing asked for": ((["*"], []), ([], None), "nothing is left"),
    "everything denied": ((["*"], ["*"]), (None, None), "allow nothing"),
    "everything denied on 443": ((["*"], ["*:443"]), (None, None), "allow nothing"),
    "a denied name below an allowed one": (
        (["*.a.example"], ["b.a.example"]), (None, None), "b.a.example is denied and lies within a.example",
    ),
    "a denied name below one that was asked": (
        (["*"], ["b.a.example"]), (["a.example"], None), "b.a.example is denied and lies within a.example",
    ),
    "a blocked name below an allowed one": (
        (["a.example"], []), (None, ["b.a.example"]), "b.a.example is denied and lies within a.example",
    ),
    "subdomains denied of a name that is allowed": (
        (["a.example"], ["*.a.example"]), (None, None), "*.a.example is denied and lies within a.example",
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused(sentence: str) -> None:
    (allow, deny), (asked, blocked), message = REFUSED[sentence]
    with pytest.raises(NarrowError) as caught:
        narrow_domains(rules(allow or (), deny or ()), asked, blocked)

    assert message in str(caught.value)


def test_paths_are_kept_where_the_vendor_takes_them() -> None:
    found = narrow_domains(rules(["a.example"]), ["a.example/docs/"], None, paths=True)
    assert found.allow == ("a.example/docs",)
    with pytest.raises(NarrowError, match="hosts alone"):
        narrow_domains(rules(["a.example"]), ["a.example/docs"], None)


def test_wildcards_are_kept_where_the_vendor_takes_them() -> None:
    found = narrow_domains(rules(["*.a.example", "b.example"]), None, None, wildcards=True)
    assert found.allow == ("*.a.example", "b.example")
