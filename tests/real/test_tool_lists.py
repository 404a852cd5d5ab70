"""Lists of tools hold under access `full`, where nothing else would keep an agent from a command."""

from typing import Any

import pytest

from real.yard import Yard

pytestmark = pytest.mark.parametrize("agent", ["gemini"])


LISTS: tuple[dict[str, Any], ...] = (
    {"tools_allowed": ["read"]},
    {"tools_denied": ["shell"]},
    {"tools_allowed": ["shell"]},
)


async def test_what_is_not_on_the_list_does_not_run(yard: Yard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access="full")
        for n, options in enumerate(LISTS):
            async for _ in live.run(f"[[shell:touch ran-{n}]]", **options):
                pass
    assert [path.name for path in yard.folder.glob("ran-*")] == ["ran-2"]
