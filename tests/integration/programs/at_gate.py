"""The programs' side of a test's gate."""


def wait_at(path: str) -> None:
    """Returns when the test lets this process through."""
    with open(path, "rb", buffering=0) as pipe:
        pipe.read(1)
