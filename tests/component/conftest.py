from __future__ import annotations

from tests.support.fixtures import api_server

__all__ = ["api_server"]
