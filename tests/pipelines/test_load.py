from pathlib import Path

import pytest

from ostler.errors import OstlerError
from ostler.pipelines.load import load_pipeline


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"#" * (1 << 20), "at least one node"),  # as large as may be: what stands in it is looked at
        (b"#" * ((1 << 20) + 1), "is larger than a pipeline file may be (1 MB)"),
        (b"name = '\xff'", "is not a text file in UTF-8"),
    ],
)
def test_what_is_no_pipeline_file(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "p.toml").write_bytes(data)
    with pytest.raises(OstlerError) as raised:
        load_pipeline(str(tmp_path / "p.toml"))
    assert raised.value.kind == "bad_request" and message in raised.value.message
