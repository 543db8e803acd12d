"""Signatures: a person signs what they registered, approved or released, with a key that the store does not hold.

The public keys of people stand in the workspace file (`signers`), which version control keeps, and not in the store:
someone who can write to the store still cannot act in another person's name.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from seedbed import documents, plugins
from seedbed.errors import Problem, SettingsError, shown
from seedbed.files import private
from seedbed.storage.store import Fact, Query, Store, now

SIGNED = ("comparison", "attempt", "approval", "refusal", "move")
"""The kinds of facts that people sign."""

ALGORITHM = "ed25519:"
KEY_BYTES = 32
MAKE_ONE = "Make one: seedbed evidence key."
FROM_FILE = "Write signing_key: {file: PATH} in the workspace file, or set SEEDBED_SIGNING_KEY to what the file holds."


class SigningKey:
    """A person's private key: base64 of 32 random bytes. repr does not show it. Raises SettingsError."""

    def __init__(self, text: str) -> None:
        self._secret = _decoded(text, "signing_key")

    @classmethod
    def new(cls) -> SigningKey:
        return cls(b64encode(os.urandom(KEY_BYTES)).decode())

    @property
    def text(self) -> str:
        """The key as it is kept."""
        return b64encode(self._secret).decode()

    @property
    def public(self) -> str:
        """The public key, as `signers` in the workspace file has it."""
        return ALGORITHM + b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, store: Store, *, by: str, clock: Callable[[], datetime] = now) -> int:
        """Sign everything that this person did and has not signed yet, and return how much it was."""
        known = {fact.subject for fact in store.facts(Query(kind="signature", by=by))}
        mine = [fact for kind in SIGNED for fact in store.facts(Query(kind=kind, by=by)) if fact.link not in known]
        return store.append(
            Fact(
                kind="signature",
                key=f"{fact.link}/{by}",
                subject=fact.link,
                at=clock(),
                by=by,
                body={"kind": fact.kind, "key": fact.key, "signature": self._key.sign(_message(fact)).hex()},
            )
            for fact in mine
        )

    @cached_property
    def _key(self) -> Any:
        return _ed25519().Ed25519PrivateKey.from_private_bytes(self._secret)


def new_signing_key(path: Path) -> str:
    """Write a new private key to a file that only its owner can read, and return its public key.

    Raises SettingsError if there is a file already.
    """
    key = SigningKey.new()
    try:
        with open(path, "x", opener=private) as file:
            file.write(f"{key.text}\n")
    except OSError as wrong:
        expected = "a new file in a folder that can be written"
        raise SettingsError([Problem(str(path), str(wrong.strerror), expected, "Choose another name.")]) from None
    return key.public


def check_signatures(store: Store, signers: Mapping[str, str]) -> list[Problem]:
    """What people with a known public key did, and did not sign."""
    problems = []
    signed = {(fact.subject, fact.by): fact for fact in store.facts(Query(kind="signature"))} if signers else {}
    for name, key in signers.items():
        public = _ed25519().Ed25519PublicKey.from_public_bytes(_decoded(key, f"signers.{name}"))
        for kind in SIGNED:
            for fact in store.facts(Query(kind=kind, by=name)):
                signature = signed.get((fact.link, name))
                if signature is None or not _holds(public, fact, signature):
                    state = "no signature" if signature is None else "a signature that does not fit"
                    remedy = f"If {name} did it: seedbed evidence sign."
                    problems.append(Problem(f"{kind} fact {fact.key}", state, f"one by {name}", remedy))
    return problems


def read_signers(path: Path) -> dict[str, str]:
    """The public keys of people by their names, from the `signers` of a workspace file. Raises SettingsError."""
    value = documents.read(path, SettingsError).value
    known = value.get("signers") if isinstance(value, Mapping) else None
    if not isinstance(known, Mapping) or not known or not all(isinstance(key, str) for key in known.values()):
        expected = "signers: {NAME: ed25519:…}, as in a workspace file"
        raise SettingsError([Problem("signers", shown(known) if known else "nothing", expected)], str(path))
    for name, key in known.items():
        _decoded(key, f"signers.{name}")
    return {str(name): key for name, key in known.items()}


def _holds(public: Any, fact: Fact, signature: Fact) -> bool:
    try:
        public.verify(bytes.fromhex(signature.body["signature"]), _message(fact))
    except (_optional("cryptography.exceptions").InvalidSignature, ValueError, LookupError, TypeError):
        return False
    return True


def _message(fact: Fact) -> bytes:
    return f"seedbed/1\n{fact.kind}\n{fact.link}".encode()


def _decoded(text: str, path: str) -> bytes:
    try:
        key = b64decode(text.strip().removeprefix(ALGORITHM), validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        is_path = path == "signing_key" and (text.startswith(("/", ".", "~")) or "." in text or "\\" in text)
        actual, remedy = ("the path of a file", FROM_FILE) if is_path else ("something else", MAKE_ONE)
        raise SettingsError([Problem(path, actual, f"base64 of {KEY_BYTES} bytes, the key itself", remedy)])
    return key


def _ed25519() -> Any:
    return _optional("cryptography.hazmat.primitives.asymmetric.ed25519")


def _optional(module: str) -> Any:
    return plugins.optional(module, extra="encryption", needed_for="signatures")
