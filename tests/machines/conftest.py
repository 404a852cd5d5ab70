"""A Postgres for the tests of a file, and an empty database for each of them."""

from collections.abc import Iterator

import pytest

from needs import require
from postgres import Postgres, running_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    require("postgres")
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> str:
    return postgres.new_database()
