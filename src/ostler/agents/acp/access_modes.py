"""Which modes of an ACP agent stay within the access of a dialog, and whether the agent has left them."""

from ostler.agents.acp.protocol import Acp, unasking
from ostler.agents.acp.session_options import AcpSessionOptions, fits
from ostler.agents.dialog import LEFT_ACCESS_HINT, too_wide
from ostler.errors import OstlerError, quoted
from ostler.model import Problem, Turn


class AccessModes:
    """The modes of one dialog, by the access of its first turn."""

    def __init__(self, acp: Acp, turn: Turn, options: AcpSessionOptions) -> None:
        self._acp, self._agent, self._access, self._options = acp, turn.agent, turn.access, options
        self.own = acp.mode_for(turn)  # the mode that asks, within the access; "" where the agent has none

    def allows(self, mode: str) -> bool:
        """Whether a mode stays within the access."""
        if self._acp.keeps_mode:
            return fits(mode, self.own)
        return self._access == "full" or any(fits(mode, each) for each in self._within())

    def check(self, mode: str) -> None:
        """Raises for a mode that nobody may choose."""
        if self._acp.keeps_mode:
            message = f"the mode of {self._agent} is what keeps its access"
            raise OstlerError("unsupported", message, "Leave the mode out, or choose another --access")
        if not self.allows(mode):
            raise too_wide(self._agent, mode, self._access, self._within())

    def violation(self) -> Problem | None:
        """What is wrong when the agent has left, by itself or by a command, what keeps the access."""
        if not self.own:
            return self._unasked()
        access, now = self._access, self._options
        left = "" if self.allows(now.mode) else f"the mode that keeps access {access} for {quoted(now.mode)}"
        for id, value in self._acp.options.items():
            if access != "full" and now.value(id) not in ("", value):
                left = f"access {access}: {id} is {quoted(now.value(id))}"
        return Problem(kind="denied", message=f"{self._agent} left {left}", hint=LEFT_ACCESS_HINT) if left else None

    def _unasked(self) -> Problem | None:
        """Nothing is known of its modes but their names: one that says that it does not ask keeps no access."""
        mode, access = self._options.mode, self._access
        names = [each.name for each in self._options.modes(lambda id: fits(id, mode))]
        if access == "full" or not any(map(unasking, (mode, *names))):
            return None
        acts = f"{self._agent} is in its mode {quoted(mode)}, in which it does not ask: access {access} would not hold"
        hint = "Set another mode on its command line or in its own settings, or use --access full"
        return Problem(kind="denied", message=acts, hint=hint)

    def _within(self) -> list[str]:
        return list(dict.fromkeys(each for each in (self.own, *self._acp.safe_modes) if each))
