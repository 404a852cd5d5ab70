"""codex's own way of editing: apply_patch becomes a tool call with paths and a diff."""

import pytest

from ostler.model import ToolEnded
from real.yard import Yard

PATCH = """*** Begin Patch
*** Update File: README.md
@@
-# A project
+# A stable
*** Add File: hay.txt
+dry
*** End Patch"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("agent", ["codex"])
async def test_file_changes_have_paths_and_a_diff(yard: Yard) -> None:
    envelope, events = await yard.turn(f"[[tool:apply_patch:{PATCH}]]", access="write", model="gpt-5.5")
    assert envelope.ok, envelope
    edit = next(e for e in events if isinstance(e, ToolEnded) and e.files)
    assert {(c.path.rsplit("/", 1)[-1], c.change) for c in edit.files} == {("README.md", "update"), ("hay.txt", "add")}
    assert "-# A project\n+# A stable\n" in edit.diff and "+dry\n" in edit.diff
    assert {c.path for c in envelope.files} == {"README.md", "hay.txt"}
