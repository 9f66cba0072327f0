"""HDFS by HTTP, where a server that stays silent is an error and not an endless wait."""

from functools import partial

from fsspec.implementations.webhdfs import WebHDFS

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""Between two pieces of an answer."""


class WebHdfs(WebHDFS):
    """fsspec's, which sets no limits."""

    def _connect(self) -> None:
        super()._connect()
        self.session.request = partial(self.session.request, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
