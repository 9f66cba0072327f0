import asyncio

import pytest


def test_no_event_loop_is_made_beside_those_of_the_tests():
    with pytest.raises(RuntimeError, match="no current event loop"):
        asyncio.get_event_loop()
