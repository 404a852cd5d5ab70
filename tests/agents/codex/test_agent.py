"""codex as a whole: it conforms, and the conversations that it keeps are found."""

from agents.replayed import CAPTURES, cases
from ostler.agents.codex.agent import AGENT
from ostler.model import Host
from ostler.testing import assert_conforms

RECORDED = [case for case in cases("codex") if not case.endswith((".hooks", ".trace"))]
ID = "01a1e199-6d02-7c42-8e83-d99da6bc007f"
HOST = Host(executable="/bin/codex", private="/run/private", home="/home/ann")
FINAL = "All done. The tool ran and this is the final answer."
UNKNOWN_MODEL = (
    "Model metadata for `gpt-5-fake` not found. Defaulting to fallback metadata; "
    "this can degrade performance and cause issues."
)
QUIET_LOG = '--config=shell_environment_policy.set.RUST_LOG=""'
READ = ("--sandbox=read-only", '--config=approval_policy="never"', "--ignore-rules")
UNTRUSTED = '--config=projects={"/work"={trust_level="untrusted"}}'
TURN = {"prompt": "hello", "folder": "/work", "access": "read"}


def test_conforms() -> None:
    assert_conforms(AGENT, captures=CAPTURES / "codex")


def test_a_kept_conversation_is_found() -> None:
    def message(role: str, said: str) -> dict[str, object]:
        return {
            "type": "response_item",
            "payload": {"type": "message", "role": role, "content": [{"type": "input_text", "text": said}]},
        }

    records = [
        {"type": "session_meta", "payload": {"id": ID, "cwd": "/work"}},
        message("user", "<environment_context>…</environment_context>"),
        message("user", "mend the gate\nplease"),
        message("user", "and the fence"),
    ]
    found = AGENT.conversation
    assert found is not None
    kept = found("rollout.jsonl", records)
    assert kept is not None and (kept.id, kept.folder, kept.title) == (ID, "/work", "mend the gate")
    assert found("rollout.jsonl", records[1:]) is None
    assert found("rollout.jsonl", [{"type": "session_meta", "payload": {"id": "--last"}}]) is None
