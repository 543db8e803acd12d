"""Past releases, checked again by the facts that they rest on."""

from __future__ import annotations

from typing import Any

from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.audit import audit
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Ref, now

ONE, TWO = (
    Playbook.from_document(
        {"roles": {"clerk": {"model": name}}, "steps": [{"name": "a", "role": "clerk", "prompt": "{text}"}]}
    )
    for name in ("one", "two")
)


def moved(store: MemoryStore, to: Any, expected: Ref | None = None) -> Ref:
    return store.move("channels/production", to, expected=expected, because="test", by="ann")


def released(playbook: Playbook, **more: Any) -> dict[str, Any]:
    return {"stable": playbook.digest, "how": "release", **more}


def test_a_history_without_verdicts_is_fine() -> None:
    store = MemoryStore()
    moved(store, released(TWO), moved(store, released(ONE)))
    assert audit(store) == []


def test_a_release_by_a_verdict_that_is_gone_is_found() -> None:
    store = MemoryStore()
    moved(store, released(TWO, verdict="b2:" + "1" * 64), moved(store, released(ONE)))
    [problem] = audit(store)
    assert problem.path == "move channels/production@2"
    assert "has no verdict" in problem.found


def test_an_approval_by_the_author_is_found() -> None:
    store = MemoryStore()
    Library(store, "ann").keep(ONE, because="mine")
    Library(store, "bob").keep(TWO, because="his")
    body = {"channel": "production", "because": "fine"}
    for playbook in (ONE, TWO):
        store.append(
            [Fact(kind="approval", key=playbook.digest, subject=playbook.digest, at=now(), by="ann", body=body)]
        )
    assert [problem.path for problem in audit(store)] == [f"approval {ONE.digest}"]
