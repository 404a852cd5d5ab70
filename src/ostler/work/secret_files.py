"""What of a home folder is nobody's business but its owner's, and how a wall hides it: `read_secrets = false`.

Landlock knows no denial. So all neighbours of what is hidden are allowed, up to the root: about a hundred rules.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ostler.agents import AGENTS, Agent
from ostler.agents.adapter import state_path

# Keys, tokens, keyrings, browser profiles, mail: of HOME.
SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".pypirc", ".vault-token"),
    *(".password-store", ".pgpass", ".my.cnf", ".s3cfg", ".boto", ".terraform.d", ".oci", ".fly", ".heroku", ".pki"),
    *(".config/gcloud", ".config/gh", ".config/git/credentials", ".config/hub", ".config/op", ".config/doctl"),
    *(
        ".config/glab-cli",
        ".config/rclone",
        ".config/sops",
        ".config/age",
        ".cargo/credentials.toml",
        ".gem/credentials",
    ),
    *(".local/share/keyrings", ".local/share/kwalletd", ".config/Bitwarden", ".config/1Password", ".config/keepassxc"),
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".config/Signal", ".config/Slack", "snap/firefox", "snap/chromium"),
    *(".bash_history", ".zsh_history", ".python_history", ".node_repl_history"),
)
_SHARED = (".local/share", ".local/state", ".config", ".cache")  # in which an agent has but a folder of its own


def hidden_paths(agent: Agent, home: str, environ: Mapping[str, str]) -> list[str]:
    """What this agent has no business with: secrets, and whatever the other agents keep."""
    own = {*agent.homes, *agent.login_files, *agent.private}
    others = [other for other in AGENTS.values() if not own & {*other.homes, *other.login_files, *other.private}]
    kept = [
        state_path(other, folder, home, environ)
        for other in others
        for folder in (*_state_folders(other), *other.private)
    ]
    return [*(os.path.join(home, name) for name in SECRETS), *kept]


def _state_folders(agent: Agent) -> list[str]:
    """The folders of HOME that hold its state and its login."""
    named = [*agent.homes.values(), *(os.path.dirname(path) for path in agent.login_files)]
    shadowed = [agent.state.shadowed] if agent.state is not None and agent.state.shadowed else []
    return [name for name in dict.fromkeys((*named, *shadowed)) if name.startswith(".") and name not in _SHARED]


def all_but(hidden: Iterable[str], root: str = "/") -> list[str]:
    """Paths whose rules together allow all of `root` but `hidden`."""
    kept = {os.path.realpath(path) for path in hidden if os.path.lexists(path)}
    ways = {str(parent) for path in kept for parent in Path(path).parents}
    found, todo = list[str](), [root]
    while todo:
        folder = todo.pop()
        for name in _listed(folder):
            path = os.path.join(folder, name)
            if path not in kept and not os.path.islink(path):
                (todo if path in ways else found).append(path)
    return found


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # nobody can look into it: what lies there cannot be read by its path, either
