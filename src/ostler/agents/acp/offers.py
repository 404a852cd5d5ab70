"""What an ACP agent offers in a dialog, and how people choose of it: modes, models, commands."""

from ostler.agents.acp.access_modes import AccessModes
from ostler.agents.acp.protocol import Acp
from ostler.agents.acp.session_options import AcpSessionOptions, SetRequest, ending
from ostler.agents.offers import offers
from ostler.agents.values import Record, tables
from ostler.errors import OstlerError
from ostler.model import Offered

OFFERS = ("config_option_update", "current_mode_update", "available_commands_update")


class AcpOffers:
    """What there is to choose from, and what was chosen."""

    def __init__(self, acp: Acp, options: AcpSessionOptions, access_modes: AccessModes) -> None:
        self._acp, self._options, self._access_modes = acp, options, access_modes
        self._commands: list[Record] = []  # slash commands that the agent has
        self._before = options.state  # what to go back to, should the agent refuse a change

    def choose(self, model: str | None, mode: str | None) -> list[SetRequest]:
        """What the agent has to set. Raises for what it does not have, or may not be set to."""
        self._before = self._options.state
        try:
            requests = [self._model(model) if model else None, self._mode(mode) if mode else None]
        except OstlerError:
            self.take_back()
            raise
        return [request for request in requests if request is not None]

    def take_back(self) -> None:
        """The last choice was refused: what held before holds."""
        self._options.state = self._before

    def _model(self, model: str) -> SetRequest | None:
        try:
            return self._options.set_model(model)
        except OstlerError as error:
            if not self._acp.model_by_flag:
                raise
            # One that is launched with its model may take names that it does not list.
            raise OstlerError("unsupported", error.message, error.hint) from error

    def _mode(self, mode: str) -> SetRequest | None:
        self._access_modes.check(mode)
        return self._options.set_mode(mode, "bad_request")

    def offered(self) -> Offered:
        options = self._options
        modes = () if self._acp.keeps_mode else options.modes(self._access_modes.allows)
        return Offered(
            quiet=True,
            commands=offers(self._commands, "name", ""),
            models=options.models(),
            modes=modes,
            model=options.model or "",
            mode=ending(options.mode) if modes else "",
        )

    def take(self, update: Record) -> None:
        """Takes in an update about modes, models or commands."""
        if update.get("sessionUpdate") == "available_commands_update":
            self._commands = tables(update.get("availableCommands"))
        else:
            self._options.take(update)
