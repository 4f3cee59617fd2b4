"""Key lists come back as they went in, and minted ones are short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.protocols.ids import mint
from bascule.state.keylist import pack, unpack

# Near misses of the packed form: prefixes, digits and separators of every kind.
PARTS = st.text(st.sampled_from("ab0_AF \n"), max_size=6)
NEAR = st.builds(lambda head, tail: f"{head}_{tail}", PARTS, PARTS)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(NEAR | ANY, max_size=8))
def test_any_list_round_trips(keys: list[str]) -> None:
    assert unpack(pack(keys)) == keys


@given(st.lists(st.binary(min_size=20, max_size=20), min_size=1, max_size=50), PARTS)
def test_minted_lists_round_trip(raws: list[bytes], prefix: str) -> None:
    keys = [f"{prefix}_{raw.hex()}" for raw in raws]
    assert unpack(pack(keys)) == keys


def test_a_minted_key_takes_its_random_bytes_only() -> None:
    keys = [mint("item") for _ in range(1000)]
    assert len(pack(keys)) < 1000 * 20 + 20
    assert pack([]) == b""


def test_refuses_what_it_did_not_write() -> None:
    with pytest.raises(ValueError, match="key list"):
        unpack(b"\x07abc")
