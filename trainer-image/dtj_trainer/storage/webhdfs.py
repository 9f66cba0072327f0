"""HDFS over HTTP, with timeouts."""

from functools import partial

from fsspec.implementations.webhdfs import WebHDFS

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""Between two pieces of an answer."""


class WebHdfs(WebHDFS):
    """The WebHDFS file system of fsspec, with timeouts."""

    def _connect(self) -> None:
        super()._connect()
        self.session.request = partial(self.session.request, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
