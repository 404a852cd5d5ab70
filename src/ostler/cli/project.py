"""`ostler trust` and `ostler init`."""

import os
from typing import Any

import click


@click.command(short_help="Let a project file run programs and widen access.")
@click.argument("path", default=".", type=click.Path(exists=True))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def trust(path: str, yes: bool) -> int:
    """Let the ostler.toml of a project count in full: commands, access, variables, store.

    PATH is the file or a folder of the project (default: here). The trust is for the file as it is
    now: a change asks for it again.

    \b
      ostler trust
      ostler trust ~/project/ostler.toml
    """
    from ostler.errors import OstlerError
    from ostler.settings import digest, find_project_file, load_settings, record_trust, trust_file, user_file
    from ostler.terminal.safe import one_line

    notices: list[str] = []
    folder = path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path))
    file, data = find_project_file(folder, notices)
    if data is None:
        raise OstlerError(
            "not_found", "".join(notices) or f"no ostler.toml in {os.path.realpath(path)}", "Write one: ostler init"
        )
    if os.path.realpath(file) == os.path.realpath(user_file(os.environ)):
        raise OstlerError("bad_request", f"{file} is your own file and needs no trust")
    load_settings(folder=folder, environ=os.environ, trust=lambda *_: True)  # a broken file is told now
    widening = _widening(file, data)
    if not widening:
        click.echo(f"{one_line(file)} asks for nothing that needs trust")
    else:
        click.echo(f"{one_line(file)} would set:")
        for line in widening:
            click.echo(f"  {line}")
        if not yes and not click.confirm("Trust it?"):
            click.echo("not trusted")
            return 1
    record_trust(trust_file(os.environ), file, digest(data))
    click.echo("trusted")
    return 0


def _widening(file: str, data: bytes) -> list[str]:
    """The keys that need trust, with the values they would set."""
    import msgspec

    from ostler.settings import file_layer, unsafe_keys, user_layer
    from ostler.terminal.safe import one_line

    values = file_layer(file, data).values
    lines = []
    for keys in unsafe_keys(values, user_layer(os.environ).values):
        value: Any = values
        for key in keys:
            value = value[int(key) - 1] if isinstance(value, list) else value[key]
        lines.append(one_line(f"{'.'.join(keys)} = {msgspec.json.encode(value).decode()}", 300))
    return lines


@click.command(short_help="Write a commented ostler.toml.")
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
def init(folder: str) -> None:
    """Write a commented ostler.toml in FOLDER (default: here). An existing one is left alone.

    \b
      ostler init
    """
    from ostler.errors import OstlerError
    from ostler.settings import PROJECT_FILE, template

    path = os.path.join(folder, PROJECT_FILE)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError as error:
        raise OstlerError("exists", f"{path} is there already", "Edit it, or remove it first") from error
    click.echo(f"wrote {path}")
