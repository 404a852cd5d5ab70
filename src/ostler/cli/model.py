"""`ostler model`: the scripted model server."""

from typing import TYPE_CHECKING

import click

from ostler.errors import quoted

if TYPE_CHECKING:
    from ostler.testing.model import ScriptedModel

SCENARIOS = (
    *("text", "say", "think", "long", "shell", "write", "tool", "tools", "loop"),
    *("schema", "slow", "hold", "hang", "error", "cut", "malformed"),
)


@click.command(short_help="Serve a scripted model on this machine, for tests.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1 (default: a free one).")
@click.option("--scenario", default="text", metavar="NAME", help="How it answers (default: text); see above.")
@click.option("--log", metavar="FILE", help="Append every request to this file, as JSON lines.")
def model(port: int, scenario: str, log: str | None) -> None:
    """Serve a scripted model until Ctrl-C: Anthropic Messages, OpenAI Responses and Chat, Gemini.

    It is for tests: point an agent's base URL at it, and the answer is known. Loopback only.

    Scenarios: text, say:TEXT, think, long:BYTES, shell[:CMD], write[:PATH], tool:NAME:JSON, tools:CMD;;CMD,
    loop[:CMD], schema, slow[:SECONDS], hold, hang, error:STATUS, cut, malformed. A prompt that holds one in
    double square brackets gets that one.

    \b
      ostler model --port 8765
      ostler model --scenario error:429 --log requests.ndjson
    """
    from ostler.testing.model import serve

    if scenario.partition(":")[0] not in SCENARIOS:
        raise click.UsageError(f"there is no scenario {quoted(scenario)}. Choose one of: {', '.join(SCENARIOS)}")
    serve(port=port, scenario=scenario, log=log, ready=_print_how_to_connect)


def _print_how_to_connect(server: "ScriptedModel") -> None:
    click.echo(f"listening on {server.url}")
    for name, value in server.environment.items():
        click.echo(f"export {name}={value}")
