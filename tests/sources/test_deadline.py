"""The time limit of a read: also the time of this process counts."""

import asyncio

import pytest

from dashboard.errors import UnreadableError
from dashboard.sources.source import Deadline


def test_time_in_which_this_process_was_busy_counts() -> None:
    async def read() -> None:
        deadline, loop = Deadline(0.05), asyncio.get_running_loop()
        assert 0 < deadline.left() <= 0.05
        ends_at = loop.time() + 0.06
        while loop.time() < ends_at:  # as a large answer is read: no timer of the event loop runs
            pass
        with pytest.raises(UnreadableError, match=r"takes longer than 0\.05 s to read"):
            deadline.left()

    asyncio.run(read())
