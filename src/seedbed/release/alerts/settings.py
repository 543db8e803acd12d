"""Who is told of alerts: a list under `alerts` in seedbed.yaml.

```yaml
alerts:
  - webhook: {url: {env: HOOK_URL}, secret: {env: HOOK_SECRET}}
  - slack: {url: {env: SLACK_URL}}
    at_least: warning
  - pagerduty: {url: {env: PAGER_URL}, key: {env: PAGER_KEY}}
    at_least: critical
  - email: {to: [ops@example.org], from: seedbed@example.org, server: "smtp://mail.example.org:587"}
    name: the desk
  - log: alerts.jsonl
```
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from seedbed.errors import Problem, SettingsError, shown
from seedbed.release.alerts.alert import SEVERITIES
from seedbed.release.alerts.senders import Email, Log, PagerDuty, Sender, Slack, Webhook
from seedbed.settings import Settings, revealed

A_REFERENCE = "{env: NAME} or {file: PATH}"
_EXPECTED = {
    "url": "a URL such as https://HOST/PATH",
    "secret": A_REFERENCE,
    "key": A_REFERENCE,
    "password": A_REFERENCE,
    "user": "the name to log in with",
    "to": "a list of addresses",
    "from": "an address such as seedbed@example.org",
    "server": "smtp://HOST:PORT or smtps://HOST:PORT",
}
_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", re.ASCII)


def senders(settings: Settings, environ: Mapping[str, str] | None = None) -> list[Sender]:
    """Those that the workspace file names, in its order. Raises SettingsError with everything that is wrong."""
    problems: list[Problem] = []
    found: list[Sender] = []
    for index, given in enumerate(settings.alerts):
        place = _Place(f"alerts[{index}]", Path(settings.source).parent, os.environ if environ is None else environ)
        sender = _sender(place, given)
        problems += place.problems
        if sender and not place.problems:
            if sender.name in [other.name for other in found]:
                remedy = "Give it another: {name: …}."
                problems.append(
                    Problem(f"{place.path}.name", f"{shown(sender.name)} again", "a name of its own", remedy)
                )
            found.append(sender)
    if problems:
        raise SettingsError(problems, settings.source)
    return found


@dataclass(frozen=True)
class _Place:
    """One place in the list: reads what stands there, and notes what is wrong with it."""

    path: str
    folder: Path
    environ: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)

    def below(self, key: str) -> _Place:
        return _Place(f"{self.path}.{key}", self.folder, self.environ, self.problems)

    def wrong(self, found: str, expected: str, remedy: str = "") -> None:
        self.problems.append(Problem(self.path, found, expected, remedy))

    def text(self, args: Mapping[str, Any], key: str, *, secret: bool = False) -> str:
        """A text that may stand elsewhere; a secret must. It is never quoted."""
        place, given = self.below(key), args.get(key)
        if secret and isinstance(given, str) and given:
            remedy = "Take it out of the file and rotate it: whoever knows it can send."
            place.wrong("a secret written out", A_REFERENCE, remedy)
            return ""
        try:
            told = revealed(given, self.environ, place.path, self.folder)
        except SettingsError as error:
            self.problems.extend(error.problems)
            return ""
        if isinstance(told, str) and told:
            return told
        place.wrong("something else" if told else "nothing", _EXPECTED[key])
        return ""

    def url(self, args: Mapping[str, Any], *, secret: bool = False) -> str:
        told = self.text(args, "url", secret=secret)
        parts = _parts(told)
        if told and not (parts and parts.scheme in ("http", "https") and parts.hostname):
            self.below("url").wrong("something else", _EXPECTED["url"])
        return told

    def address(self, given: object, expected: str) -> str:
        if isinstance(given, str) and _ADDRESS.fullmatch(given):
            return given
        self.wrong("nothing" if given is None else shown(given), expected)
        return ""


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is looked at only now
    except ValueError:
        return None
    return parts if url.isprintable() and " " not in url else None


def _sender(place: _Place, given: Mapping[str, Any]) -> Sender | None:
    kinds = [kind for kind in _KINDS if kind in given]
    known = (*_KINDS, "at_least", "name")
    for key in given:
        if key not in known:
            place.below(key).wrong("an unknown key", f"one of: {', '.join(known)}")
    if len(kinds) != 1:
        place.wrong(" and ".join(kinds) or "no way to send", f"one of: {', '.join(_KINDS)}")
        return None
    (kind,) = kinds
    how = {"name": given.get("name", kind), "at_least": given.get("at_least", "info")}
    if not isinstance(how["name"], str) or not re.fullmatch(r"\w[\w .-]{0,63}", how["name"]):
        place.below("name").wrong(shown(how["name"]), "a short name of letters and digits")
    if how["at_least"] not in SEVERITIES:
        place.below("at_least").wrong(shown(how["at_least"]), f"one of: {', '.join(SEVERITIES)}")
    read, keys = _KINDS[kind]
    within, args = place.below(kind), given[kind]
    if keys and not isinstance(args, Mapping):
        within.wrong("something else", f"a mapping with {', '.join(keys)}")
        return None
    for key in args if keys else ():
        if key not in keys:
            within.below(key).wrong("an unknown key", f"one of: {', '.join(keys)}")
    return read(within, args, how)


def _webhook(place: _Place, args: Any, how: Any) -> Sender:
    return Webhook(**how, url=place.url(args), secret=place.text(args, "secret", secret=True))


def _slack(place: _Place, args: Any, how: Any) -> Sender:
    return Slack(**how, url=place.url(args, secret=True))


def _pagerduty(place: _Place, args: Any, how: Any) -> Sender:
    return PagerDuty(**how, url=place.url(args), key=place.text(args, "key", secret=True))


def _email(place: _Place, args: Any, how: Any) -> Sender:
    server = place.text(args, "server")
    parts = _parts(server)
    if server and not (parts and parts.scheme in ("smtp", "smtps") and parts.hostname and "@" not in parts.netloc):
        place.below("server").wrong("something else", _EXPECTED["server"], "Who logs in there are user and password.")
    listed = args.get("to")
    if not isinstance(listed, list) or not listed:
        place.below("to").wrong("nobody" if not listed else shown(listed), _EXPECTED["to"])
        listed = []
    to = [place.below(f"to[{index}]").address(each, "an address") for index, each in enumerate(listed)]
    login: dict[str, Any] = {}
    if "user" in args or "password" in args:
        login = {"user": place.text(args, "user"), "password": place.text(args, "password", secret=True)}
    sender = place.below("from").address(args.get("from"), _EXPECTED["from"])
    return Email(**how, to=tuple(dict.fromkeys(to)), sender=sender, server=server, **login)


def _log(place: _Place, args: Any, how: Any) -> Sender:
    if args in (None, {}):
        return Log(**how)
    if not isinstance(args, str) or not args:
        place.wrong(shown(args), "the path of a file, or {} for the error stream")
        return Log(**how)
    return Log(**how, file=place.folder / args)


_KINDS: dict[str, tuple[Callable[[_Place, Any, Any], Sender], tuple[str, ...]]] = {
    "webhook": (_webhook, ("url", "secret")),
    "slack": (_slack, ("url",)),
    "pagerduty": (_pagerduty, ("url", "key")),
    "email": (_email, ("to", "from", "server", "user", "password")),
    "log": (_log, ()),
}
"""Of each way to send: how it is read, and the keys it knows."""
