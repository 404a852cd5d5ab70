"""What a turn of an ACP agent used: some tell sums over the session or the process, some the last step alone."""

import math

from ostler.agents.acp.protocol import Acp
from ostler.agents.values import Record, number, table
from ostler.model import Usage


class Meter:
    """What a session has used so far, where an agent tells sums: each turn gets its own part, or nothing."""

    def __init__(self, acp: Acp, new: bool) -> None:
        self.counts = acp.counts
        self.tokens: dict[str, int] = {}
        self.cost: float | None = 0.0 if new else None  # of a resumed session nobody knows the sum yet
        self.spent: float | None = None  # in this turn

    def take(self, update: Record) -> None:
        """`usage_update` counts the context, not the turn; but the cost is that of the session."""
        cost = table(update.get("cost"))
        amount = cost.get("amount")
        if not isinstance(amount, int | float) or isinstance(amount, bool) or cost.get("currency") != "USD":
            return
        if not 0 <= amount < math.inf:
            return
        if self.cost is not None and amount >= self.cost:
            self.spent = (self.spent or 0.0) + amount - self.cost
        self.cost = float(amount)

    def turn(self, result: Record) -> tuple[Usage | None, float | None]:
        """The tokens and the cost of the turn that ends with this answer."""
        spent, self.spent = self.spent, None
        return self._usage(result), round(spent, 9) if spent else None  # 0: it knows no price

    def _usage(self, result: Record) -> Usage | None:
        quota = table(table(table(result.get("_meta")).get("quota")).get("token_count"))  # gemini
        usage = table(result.get("usage"))
        now = {name: count for name, count in _counts(usage, quota).items() if count is not None}
        if not now or self.counts == "no":
            return None
        before, self.tokens = (self.tokens, now) if self.counts == "process" else ({}, {})
        part = {name: count - before.get(name, 0) for name, count in now.items()}
        return Usage(**part) if min(part.values()) >= 0 and any(part.values()) else None


def _counts(usage: Record, quota: Record) -> dict[str, int | None]:
    """Some agents count cached input apart from the rest: then the total is more than input and output."""
    input = number(usage.get("inputTokens", quota.get("input_tokens")))
    output = number(usage.get("outputTokens", quota.get("output_tokens")))
    cached = (number(usage.get("cachedReadTokens")) or 0) + (number(usage.get("cachedWriteTokens")) or 0)
    if input is not None and cached and number(usage.get("totalTokens")) == input + (output or 0) + cached:
        input += cached
    return {
        "input_tokens": input,
        "output_tokens": output,
        "cached_tokens": number(usage.get("cachedReadTokens")),
        "reasoning_tokens": number(usage.get("thoughtTokens")),
    }
