"""The test files of `make quick`: those of pure modules. Nothing in them starts a process, a server or a browser."""

from test_house import FILES, TESTED_WITH, TESTS, is_pure, its_test, room

# These modules are pure; what they are for is tried with real processes as well.
STARTING = {
    *("acp/test_servers.py", "agents/test_script.py", "server/test_openapi.py", "work/test_folder_settings.py"),
    *("work/test_offers.py", "work/test_schema.py", "work/test_servers.py", "work/test_turn_terminal.py"),
}


def quick_files() -> list[str]:
    pure = [path for path in FILES if room(path) != "testing" and path.stem not in TESTED_WITH and is_pure(path)]
    files = {its_test(path) for path in pure} | {TESTS / "test_house.py", TESTS / "test_settings.py"}
    return sorted(str(path) for path in files - {TESTS / name for name in STARTING})


if __name__ == "__main__":
    print(*quick_files())
