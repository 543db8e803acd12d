"""An optimizer: move one number up or down as long as that helps."""

from collections.abc import Sequence

from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers.registry import SearchInputs
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.genes import genes, with_genes


class Steps:
    """Offers the neighbours of the best playbook so far; ends when it has tried both.

    Neighbours differ in one number, by a share of its range. `search.pool` has what was tried and how well it did, so
    there is no state to save: an interrupted search continues by itself.
    """

    reads = False  # it does not look at tasks, so all of them can be used for scoring

    def __init__(self, gene: str, *, share: float = 0.1) -> None:
        self.identity = {"optimizer": "steps", "gene": gene, "share": share}
        self._gene, self._share = gene, share

    def begin(self, search: Search) -> None:
        self._pool = search.pool

    async def ask(self) -> Sequence[Offer]:
        best = self._pool.playbooks[self._pool.best()]
        gene = genes(best).get(self._gene)  # locked genes are not in it
        if gene is None or gene.low is None or gene.high is None:
            return []
        step = self._share * (gene.high - gene.low)
        values = [min(max(gene.value + change, gene.low), gene.high) for change in (step, -step)]
        children = [with_genes(best, {self._gene: round(value, 6)}) for value in values]
        return [
            Offer(child, (best.digest,), how=f"moved {self._gene}")
            for child in children
            if child.digest not in self._pool
        ]

    async def tell(self, cells: Sequence[Cell]) -> None:
        """Nothing to do: the pool already has them."""


def steps(inputs: SearchInputs, *, gene: str, share: float = 0.1) -> Steps:
    """The optimizer by its name: `--optimizer "steps(gene='parameters.bold')"`."""
    return Steps(gene, share=share)
