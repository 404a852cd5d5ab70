"""What an ACP agent offers in a dialog, and how people choose of it: modes, models, commands."""

from ostler.agents.acp_opening import AcpOpening
from ostler.agents.acp_session import Wish, ending
from ostler.agents.adapter import Record
from ostler.agents.dialog import Step, too_wide
from ostler.agents.offers import offers
from ostler.agents.values import tables
from ostler.errors import OstlerError
from ostler.words import Host, Offered, Turn

OFFERS = ("config_option_update", "current_mode_update", "available_commands_update")


class AcpOffers(AcpOpening):
    """The part of an ACP dialog that sets modes and models, and tells what there is."""

    def __init__(self, turn: Turn, host: Host) -> None:
        super().__init__(turn, host)
        self.commands: list[Record] = []  # slash commands that the agent has
        self._before = self._offered.state  # what to go back to, should the agent refuse a change

    def change(self, *, model: str | None = None, mode: str | None = None) -> list[Step]:
        self._before = self._offered.state
        try:
            wishes = [self._wish_model(model) if model else None, self._wish_mode(mode) if mode else None]
        except OstlerError:
            self._offered.state = self._before
            raise
        return [self._set(wish) for wish in wishes if wish is not None]

    def _wish_model(self, model: str) -> Wish | None:
        try:
            return self._offered.set_model(model)
        except OstlerError as error:
            # One that is launched with its model may take names that it does not list.
            raise self._named(error, "unsupported" if self.acp.model_by_flag else error.kind) from error

    def _wish_mode(self, mode: str) -> Wish | None:
        self.check_mode(mode)
        try:
            return self._offered.set_mode(mode, "bad_request")
        except OstlerError as error:
            raise self._named(error, error.kind) from error

    def check_mode(self, mode: str) -> None:
        agent, own = self.first.agent, self.mode_for(self.first)
        if self.acp.keeps_mode:
            message = f"the mode of {agent} is what keeps its access"
            raise OstlerError("unsupported", message, "Leave the mode out, or choose another --access")
        if not self.may(mode):
            within = [each for each in (own, *self.acp.safe_modes) if each]
            raise too_wide(agent, mode, self.first.access, list(dict.fromkeys(within)))

    def offered(self) -> Offered:
        modes = () if self.acp.keeps_mode else self._offered.modes(self.may)
        return Offered(
            quiet=True,
            commands=offers(self.commands, "name", ""),
            models=self._offered.models(),
            modes=modes,
            model=self._offered.model or "",
            mode=ending(self._offered.mode) if modes else "",
        )

    def heard_offers(self, update: Record) -> None:
        """Takes in an update about modes, models or commands."""
        if update.get("sessionUpdate") == "available_commands_update":
            self.commands = tables(update.get("availableCommands"))
        else:
            self._offered.told(update)
