"""Account: what a search has spent, and may still spend of its budget."""

from __future__ import annotations

from seedbed.errors import BudgetSpent
from seedbed.spending.budget import Budget
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Json


class Account:
    """The spending of a search. Runs are reserved before they are launched; the ledger reserves money and tokens call
    by call, also from the one that it is `within`."""

    def __init__(self, budget: Budget, within: Ledger | None = None) -> None:
        self.budget = budget
        self.runs = 0
        self.seconds = 0.0
        self.ledger = Ledger(budget.usd, budget.tokens, last_share=0.0, within=within)
        self.highest_usd, self.highest_tokens = 0.0, 0

    @property
    def spent(self) -> Json:
        usd, tokens = self.ledger.spent_usd, self.ledger.spent_tokens
        spent: Json = {"runs": self.runs, "tokens": tokens, "usd": usd, "seconds": round(self.seconds, 3)}
        return spent | ({"unpriced": self.ledger.unpriced} if self.ledger.unpriced else {})

    def runs_left(self, reserve: int = 0) -> int | None:
        """How many more runs may be launched if `reserve` of them are for later; None without a limit.

        Money and tokens limit it to as many runs as could be paid if each took as much as the most expensive so far.
        """
        limits = [] if self.budget.runs is None else [self.budget.runs - self.runs - reserve]
        if self.budget.usd is not None and self.highest_usd > 0:
            limits.append(int(self.ledger.left_usd() / self.highest_usd + 1e-9) - reserve)
        if self.budget.tokens is not None and self.highest_tokens > 0:
            limits.append(int(self.ledger.left_tokens() // self.highest_tokens) - reserve)
        return max(0, min(limits)) if limits else None

    def is_over(self, reserve: int = 0) -> bool:
        """Whether nothing more can be launched."""
        late = self.budget.seconds is not None and self.seconds >= self.budget.seconds
        return late or self.ledger.is_short or self.runs_left(reserve) == 0

    def reserve(self, runs: int) -> None:
        """Count runs before they are launched. Raises BudgetSpent rather than count one too many."""
        if self.budget.runs is not None and self.runs + runs > self.budget.runs:
            left = self.budget.runs - self.runs
            raise BudgetSpent(f"found {left} runs left of {self.budget}; expected {runs}. Raise the budget")
        self.runs += runs

    def learn(self, usd: float, tokens: int = 0) -> None:
        """Note the cost of a run. At most as many are launched at once as could be paid if each cost as much."""
        self.highest_usd, self.highest_tokens = max(self.highest_usd, usd), max(self.highest_tokens, tokens)
