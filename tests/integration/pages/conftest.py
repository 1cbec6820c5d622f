"""A browser for the tests of single pages of the dashboard."""

from typing import Iterator

import pytest
from browsers import Watched, browsers, watched_pages
from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module."""
    yield from browsers()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A new page without a session."""
    yield from watched_pages(browser)
