"""The ledger: every identity has one name that the server takes, and the name leads back to it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.toolkit.names import Identity, Ledger

LEGAL = re.compile(r"[A-Za-z0-9_-]+")

_name = st.text("ab_.-é 日", min_size=1, max_size=5) | st.sampled_from(
    ["x" * 64, "x" * 65, "a__b", "a", "b", "tool", "x" * 200, "."]
)
identities = st.lists(
    st.builds(
        Identity, st.none() | _name, _name, st.sampled_from(["function", "custom", "mcp", "shell"])
    ),
    unique=True,
    max_size=12,
)
limits = st.sampled_from([64, 128])


@given(identities, limits)
def test_names_are_legal_short_and_lead_back(found: list[Identity], limit: int) -> None:
    ledger = Ledger(limit)
    ledger.assign_all(found)
    wires = [ledger.assign(identity) for identity in found]
    assert len(set(wires)) == len(wires)
    for identity, wire in zip(found, wires, strict=True):
        assert LEGAL.fullmatch(wire)
        assert len(wire) <= limit
        assert ledger.identity(wire) == identity


@given(identities, limits)
def test_the_order_of_declarations_does_not_matter_for_the_plain_names(
    found: list[Identity], limit: int
) -> None:
    # Tools of different kinds and one name have the same right to it: the first gets it.
    found = [identity for identity in found if identity.kind == "function"]
    one, other = Ledger(limit), Ledger(limit)
    one.assign_all(found)
    other.assign_all(reversed(found))
    for identity in found:
        if identity.namespace is None and identity.kind == "function":
            assert one.assign(identity) == other.assign(identity)


@given(identities, identities, limits)
def test_a_name_that_was_sent_never_changes(
    earlier: list[Identity], later: list[Identity], limit: int
) -> None:
    first = Ledger(limit)
    first.assign_all(earlier)
    names = first.table()
    second = Ledger(limit, names)
    second.assign_all(later)
    second.assign_all(earlier)
    assert {identity: second.assign(identity) for identity in earlier} == names
    assert len(set(second.table().values())) == len(second.table())
    assert second.agrees(Ledger(fixed=names))


@given(identities, limits)
def test_a_hashed_name_depends_on_its_identity_alone(found: list[Identity], limit: int) -> None:
    for identity in found:
        alone = Ledger(limit).assign(identity)
        assert alone == Ledger(limit).assign(identity)
        if not alone.endswith(identity.name):
            assert re.search(r"_[0-9a-f]{10}$", alone)


def test_legal_names_go_out_as_they_are() -> None:
    ledger = Ledger()
    assert ledger.assign(Identity(None, "get-weather_2", "function")) == "get-weather_2"
    assert ledger.assign(Identity("files", "read", "function")) == "files__read"


def test_the_namespaced_one_takes_the_hash() -> None:
    ledger = Ledger()
    inside, outside = Identity("a", "b", "function"), Identity(None, "a__b", "function")
    ledger.assign_all([inside, outside])
    assert ledger.assign(outside) == "a__b"
    assert re.fullmatch(r"a__b_[0-9a-f]{10}", ledger.assign(inside))


@pytest.mark.parametrize("limit", [64, 128])
def test_a_long_name_keeps_readable_parts_of_both(limit: int) -> None:
    wire = Ledger(limit).assign(Identity("repository" * 20, "search" * 30 + "_commits", "function"))
    assert len(wire) == limit
    assert wire.startswith("repository")
    assert re.search(r"_commits_[0-9a-f]{10}$", wire)
