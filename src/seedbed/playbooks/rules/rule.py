"""A rule: the pattern of an action's name, with conditions on its arguments and on how often it was taken.

A doubt counts against the action. In a list that restricts, a condition holds if anything suggests it: one value of
several, another spelling, a missing argument. In a list that permits, it holds only if every value fits exactly.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, RootModel, Tag, model_validator
from pydantic_core import PydanticCustomError

from seedbed.playbooks.rules.patterns import folded, matches
from seedbed.playbooks.values import is_number

SEPARATORS = re.compile(r"[,;|<>、 \x00-\x1f\x7f\x85\u2028\u2029]|(?<![^/\\])\.\.(?![^/\\])")
"""What can hide a second value in a text, or leave a folder. In a rule that permits, `*` does not stand for these."""
BETWEEN_WORDS = re.compile(r"[\s,;|<>、()\[\]{}\"'\x00-\x1f\x7f]+")
"""What ends one part of a text and begins another, for rules that restrict."""

CallCount = Annotated[int, Field(ge=0, strict=True)]
Limit = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Taken: TypeAlias = Iterable[tuple[str, Mapping[str, Any]]]
"""Actions that a run has taken: their names and arguments."""


class ArgumentTest(BaseModel):
    """What a rule asks about one argument; all of it must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    matches: str | None = None
    not_matches: str | None = None
    one_of: Annotated[tuple[bool | Limit | str, ...], Field(min_length=1)] | None = None
    above: Limit | None = None
    below: Limit | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> ArgumentTest:
        if all(value is None for _, value in self):
            raise PydanticCustomError("condition", f"at least one of: {', '.join(type(self).model_fields)}")
        return self

    def holds(self, argument: object, permits: bool) -> bool:
        """Whether it holds of an argument, in a rule that permits or in one that restricts."""
        of_text = (self.matches, self.not_matches, self.one_of) != (None, None, None)
        values = list(_leaves(argument, words=of_text))
        if values:
            return (all if permits else any)(self._fits(value, permits) for value in values)
        # Of nothing at all there is no text to object to, but a number that is not given may be any.
        of_number = (self.above, self.below) != (None, None)
        return not of_number if permits else not of_text

    def _fits(self, value: object, permits: bool) -> bool:
        text, number = _text(value), _number(value)
        if self.matches is not None and not _like(self.matches, text, exactly=permits):
            return False
        if self.not_matches is not None and _like(self.not_matches, text, exactly=not permits):
            return False
        if self.one_of is not None and not any(_same(each, value, exactly=permits) for each in self.one_of):
            return False
        if self.above is not None and not (not permits if number is None else number > self.above):
            return False
        return self.below is None or (not permits if number is None else number < self.below)

    def covers(self, other: ArgumentTest) -> bool:
        """Whether it surely holds wherever the other one does."""
        if self.matches is not None and (other.matches is None or not _is_wider(self.matches, other.matches)):
            return False
        if self.not_matches is not None and (
            other.not_matches is None or not _is_wider(other.not_matches, self.not_matches)
        ):
            return False
        if self.one_of is not None and (other.one_of is None or not {*other.one_of} <= {*self.one_of}):
            return False
        if self.above is not None and (other.above is None or other.above < self.above):
            return False
        return self.below is None or (other.below is not None and other.below <= self.below)


class Conditions(BaseModel):
    """When a rule applies: tests of arguments by name, and how many times a run takes the action.

    `at_most` holds for the first calls of a run, `more_than` for those after them; both count calls that the rule's
    name and tests cover, in the run and in all runs that it opens.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, ArgumentTest] = Field(init=False)

    at_most: CallCount | None = None
    more_than: CallCount | None = None

    @property
    def arguments(self) -> dict[str, ArgumentTest]:
        return self.__pydantic_extra__ or {}


class ConditionalRule(RootModel[Annotated[dict[str, Conditions], Field(min_length=1, max_length=1)]]):
    """A rule with conditions, as a document has it: `{send_email: {to: {not_matches: "*@example.org"}}}`."""

    model_config = ConfigDict(frozen=True)

    def __hash__(self) -> int:
        return hash(rule_text(self))


ActionRule: TypeAlias = Annotated[
    Annotated[str, Tag("name")] | Annotated[ConditionalRule, Tag("rule")],
    Discriminator(lambda rule: "name" if isinstance(rule, str) else "rule"),
]
"""The pattern of an action's name, or one with conditions."""

NONE = Conditions()


def _parts(rule: ActionRule) -> tuple[str, Conditions]:
    return (rule, NONE) if isinstance(rule, str) else next(iter(rule.root.items()))


def action_of(rule: ActionRule) -> str:
    """The pattern of the action's name."""
    return _parts(rule)[0]


def rule_text(rule: ActionRule) -> str:
    """A rule as people read it, in one line; the same for equal rules."""
    if isinstance(rule, str):
        return rule
    return json.dumps(rule.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False, sort_keys=True)


def names(rule: ActionRule, action: str) -> bool:
    """Whether a rule is about an action, whatever its conditions."""
    return matches(folded(action_of(rule)), folded(action))


def applies(rule: ActionRule, action: str, arguments: Mapping[str, Any] | None, taken: Taken, *, permits: bool) -> bool:
    """Whether a rule of a list that permits, or of one that restricts, applies to an action. None as its arguments
    stands for any."""
    _, conditions = _parts(rule)
    if not _fits(rule, action, arguments, permits):
        return False
    if conditions.at_most is None and conditions.more_than is None:
        return True
    number = 1 + sum(_fits(rule, *earlier, permits) for earlier in taken)
    return not (conditions.at_most is not None and number > conditions.at_most) and not (
        conditions.more_than is not None and number <= conditions.more_than
    )


def _fits(rule: ActionRule, action: str, arguments: Mapping[str, Any] | None, permits: bool) -> bool:
    tests = _parts(rule)[1].arguments
    return names(rule, action) and all(
        test.holds(arguments[name], permits) if arguments and name in arguments else not permits
        for name, test in tests.items()
    )


def covers(wide: ActionRule, narrow: ActionRule) -> bool:
    """Whether one rule surely applies wherever the other one does. A condition makes a rule narrower."""
    if wide == narrow:
        return True
    (pattern, wanted), (_, narrower) = _parts(wide), _parts(narrow)
    if wanted.at_most is not None or not matches(folded(pattern), folded(action_of(narrow))):
        return False  # a wider rule has more calls to count
    if wanted.more_than is not None and (narrower.more_than is None or narrower.more_than < wanted.more_than):
        return False
    tests = narrower.arguments
    return all(name in tests and test.covers(tests[name]) for name, test in wanted.arguments.items())


def _leaves(value: object, *, words: bool) -> Iterator[object]:
    """The values within an argument, and the keys, of which some tools make addresses or amounts. Keys that are no
    numbers count only if a test is about `words`."""
    if isinstance(value, Mapping):
        yield from (key for key in value if words or _number(key) is not None)
        for item in value.values():
            yield from _leaves(item, words=words)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _leaves(item, words=words)
    elif value is not None:
        yield value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: object) -> float | None:
    """A number, also one written as text, which most tools accept."""
    try:
        number = None if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number == number else None


def _parts_of(text: str) -> list[str]:
    """A text and the values that may hide in it, each as names are compared. Hidden characters do not count."""
    seen = (each for each in unicodedata.normalize("NFKC", text) if unicodedata.category(each) != "Cf")
    words = BETWEEN_WORDS.split("".join(seen))
    return [folded(part) for part in (text, *(each.strip(".:") for each in words))]


def _separators(text: str) -> set[str]:
    return {*SEPARATORS.findall(unicodedata.normalize("NFKC", text))}


def _separators_in(pattern: str) -> set[str]:
    """Those that a text may have to be exactly like a pattern. One that is open at both ends, such as `*invoice*`, is
    about a part of a text, which has words around it."""
    is_open = pattern[:1] == pattern[-1:] == "*"
    return _separators(pattern) | ({" "} if is_open else set())


def _is_wider(wide: str, narrow: str) -> bool:
    return matches(wide, narrow) and _separators_in(narrow) <= _separators_in(wide)


def _like(pattern: str, text: str, *, exactly: bool) -> bool:
    if not exactly:
        return matches(pattern, text) or any(matches(folded(pattern), part) for part in _parts_of(text))
    return matches(pattern, text) and _separators(text) <= _separators_in(pattern)


def _same(wanted: bool | float | str, value: object, *, exactly: bool) -> bool:
    if exactly:
        return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
    number = _number(value)
    alike = is_number(wanted) and number is not None and number == wanted
    return alike or folded(_text(wanted)) in _parts_of(_text(value))
