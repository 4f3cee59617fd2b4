"""The kinds of model servers."""

from typing import Any

import msgspec
import pytest

from bascule.protocols.flags import Flags, override
from bascule.upstreams.profile import Profile
from bascule.upstreams.profiles import PROFILES

FIELDS = msgspec.structs.fields(Flags)


def test_no_flag_has_a_default() -> None:
    assert [field.name for field in FIELDS if not field.required] == []


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_a_profile_that_leaves_a_flag_out_does_not_load(
    field: msgspec.structs.FieldInfo,
) -> None:
    values: dict[str, Any] = msgspec.to_builtins(PROFILES["custom"].flags)
    del values[field.name]
    with pytest.raises(TypeError, match=field.name):
        Flags(**values)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_every_profile_gives_every_flag_a_value_of_its_type(profile: Profile) -> None:
    values: dict[str, Any] = msgspec.to_builtins(profile.flags)
    assert set(values) == {field.name for field in FIELDS}
    assert msgspec.convert(values, Flags) == profile.flags


def test_names_and_ports_are_unique() -> None:
    assert [profile.name for profile in PROFILES.values()] == list(PROFILES)
    ports = [profile.port for profile in PROFILES.values() if profile.port is not None]
    assert len(ports) == len(set(ports))


def test_an_override_changes_what_it_names() -> None:
    flags = PROFILES["vllm"].flags
    changed = override(flags, {"image_input": not flags.image_input})
    assert changed.image_input != flags.image_input
    assert override(changed, {"image_input": flags.image_input}) == flags
    assert override(flags, {}) == flags


@pytest.mark.parametrize("changes", [{"no": True}, {"image_input": 1}, {"reasoning_effort": "x"}])
def test_an_override_that_cannot_be(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="flags"):
        override(PROFILES["vllm"].flags, changes)
