import pytest


@pytest.fixture(scope="module", autouse=True)
def parts() -> None:
    """Screen processes are started as ostler starts them."""
