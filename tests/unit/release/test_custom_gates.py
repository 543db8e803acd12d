"""Gates of one's own: by their place or offered by a package; what goes wrong in them never lets a candidate pass."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest
from release_samples import change, kept

from seedbed.errors import SettingsError
from seedbed.release.gates.gate import Gate, Refusal, ReleaseRequest
from seedbed.release.gates.registry import build_gates
from seedbed.settings import ChannelSettings


async def quiet(change: ReleaseRequest) -> Refusal | None:
    return None


async def short(change: ReleaseRequest, *, limit: int = 80) -> Refusal | None:
    longest = max(len(role.system) for role in change.library.get(change.candidate).roles.values())
    return Refusal("short", f"{longest} characters", f"at most {limit}", "Shorten it.") if longest > limit else None


@dataclass
class Picky:
    about: str

    async def __call__(self, change: ReleaseRequest) -> Refusal | None:
        return Refusal("picky", self.about, "something else", "Try again.")


async def broken(change: ReleaseRequest) -> Refusal | None:
    raise KeyError("tasks")


async def naive(change: ReleaseRequest) -> Any:
    return True


def hasty(change: ReleaseRequest) -> Refusal | None:
    return None


def gate(item: object) -> Gate:
    (found,) = build_gates("production", ChannelSettings.read({"require": [item]}, "channels.production"))
    return found


def here(name: str) -> str:
    return f"{__name__}:{name}"


async def test_a_function_is_a_gate_and_has_options() -> None:
    asked = change(kept())
    assert await gate(here("quiet"))(asked) is None
    assert await gate(here("short"))(asked) is None
    assert await gate({here("short"): {"limit": 1}})(asked) == Refusal(
        "short", "2 characters", "at most 1", "Shorten it."
    )


async def test_a_class_is_made_with_its_options() -> None:
    refusal = await gate({here("Picky"): {"about": "colour"}})(change(kept()))
    assert refusal
    assert refusal.found == "colour"


async def test_a_gate_that_fails_refuses() -> None:
    refusal = await gate(here("broken"))(change(kept()))
    assert refusal
    assert (refusal.path, refusal.found) == (here("broken"), "KeyError: 'tasks'")


async def test_a_gate_that_says_yes_by_true_does_not_pass() -> None:
    refusal = await gate(here("naive"))(change(kept()))
    assert refusal
    assert refusal.found == "the answer True"


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("nowhere:gate", "No module named 'nowhere'"),
        (here("missing"), "has no attribute 'missing'"),
        (here("hasty"), "expected a gate: async"),
        ({here("short"): {"length": 1}}, "unexpected keyword argument 'length'"),
        ({here("short"): [1]}, r"expected its options, such as \{limit: 80\}"),
        (here("Picky"), "missing 1 required positional argument: 'about'"),
        (here("RULES"), "expected a gate: async|not a callable"),
        ("shrt", "expected one of: schema, better"),
    ],
)
def test_what_is_no_gate_is_told_with_its_place(item: object, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        gate(item)
    assert caught.value.problems[0].path.startswith("channels.production.require[0]")


RULES: dict[str, str] = {}


async def test_a_package_offers_gates_by_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "garden-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: garden\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[seedbed.gates]\nfenced = garden_gates:fenced\n")
    (tmp_path / "garden_gates.py").write_text(
        "from seedbed.release.gates.gate import Refusal\n"
        "async def fenced(change, *, height=1):\n"
        "    return Refusal('fenced', f'{height} m', 'none', 'Climb.') if height > 1 else None\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    invalidate_caches()
    asked = change(kept())
    assert await gate("fenced")(asked) is None
    assert await gate({"fenced": {"height": 2}})(asked) == Refusal("fenced", "2 m", "none", "Climb.")
    with pytest.raises(SettingsError, match="fenced; or with a value"):
        gate("fence")
