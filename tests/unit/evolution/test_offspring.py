from __future__ import annotations

from collections.abc import Sequence

import pytest
from front_samples import Named, opened, point, values

from seedbed.errors import PlaybookError
from seedbed.evolution.protocols import Offer, Search
from seedbed.evolution.variation.operators import Offspring
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook

METRICS = [Named("quality")]


class Add:
    """Adds a tenth to the first number, and so makes the same child of the same parent."""

    name = "add a tenth"

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        more = round(values(parent)[0] + 0.1, 6)
        return with_genes(parent, {"parameters.x0": more}) if more <= 1 else None


async def test_a_child_has_its_parents_and_the_name_of_what_made_it() -> None:
    one, other = point(0.1), point(0.5)
    (offer,) = await Offspring(opened(one, METRICS), [Add()]).make([[one, other]], "e")
    assert offer == Offer(point(0.2), (one.digest, other.digest), "add a tenth")


async def test_no_child_is_made_twice_or_was_tried_already() -> None:
    search = opened(point(0.1), METRICS)
    search.pool.add(Offer(point(0.4)))
    parents = [point(0.1), point(0.1), point(0.3), point(0.5)]
    made = await Offspring(search, [Add()]).make([[each] for each in parents], "e")
    assert [offer.playbook for offer in made] == [point(0.2), point(0.6)]


async def test_where_no_operator_finds_a_child_there_is_none() -> None:
    start = point(1.0)
    assert await Offspring(opened(start, METRICS), [Add()]).make([[start]], "e") == []


async def test_by_default_texts_and_numbers_are_varied() -> None:
    document = {"writer": {"system": "Be brief. Be kind. Be right.", "temperature": 0.5}}
    start = Playbook.from_document({"roles": document})
    made = await Offspring(opened(start, METRICS)).make([[start]] * 40, "e")
    changed = {
        path for offer in made for path, gene in genes(offer.playbook).items() if gene.value != genes(start)[path].value
    }
    assert {"roles.writer.system", "roles.writer.temperature"} <= changed
    assert len({offer.how for offer in made}) > 3


async def test_the_same_event_makes_the_same_children() -> None:
    start = Playbook.from_document({"roles": {"writer": {"system": "Be brief. Be kind. Be right."}}})
    one, same, other = [await Offspring(opened(start, METRICS)).make([[start]] * 5, event) for event in ("e", "e", "f")]
    assert one == same
    assert one != other


def test_a_start_of_which_nothing_may_evolve_is_refused() -> None:
    with pytest.raises(PlaybookError, match="start: found no gene that may be varied"):
        Offspring(opened(point(0.5, locked=["parameters.*"]), METRICS))
