"""`ostler completion`."""

import click


@click.command(short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete commands, flags, agents and sessions.

    \b
      eval "$(ostler completion bash)"        # in ~/.bashrc
      eval "$(ostler completion zsh)"         # in ~/.zshrc
      ostler completion fish | source         # in ~/.config/fish/config.fish
    """
    from click.shell_completion import BashComplete, get_completion_class

    from ostler.cli import cli

    complete = get_completion_class(shell)
    assert complete is not None
    made = complete(cli, {}, "ostler", "_OSTLER_COMPLETE")
    # Bash's own check starts a bash to ask for its version; the script is the same for all that work.
    click.echo(made.source_template % made.source_vars() if isinstance(made, BashComplete) else made.source())
