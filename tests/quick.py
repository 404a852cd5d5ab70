"""The test files of `make quick`: those of pure modules.

Tests in them that start a process or a server are skipped there: conftest.py refuses it.
"""

from test_house import FILES, TESTED_WITH, TESTS, is_pure, its_test, room


def quick_files() -> list[str]:
    pure = [path for path in FILES if room(path) != "testing" and path.stem not in TESTED_WITH and is_pure(path)]
    files = {its_test(path) for path in pure} | {TESTS / "test_house.py", TESTS / "test_settings.py"}
    return sorted(map(str, files))


if __name__ == "__main__":
    print(*quick_files())
