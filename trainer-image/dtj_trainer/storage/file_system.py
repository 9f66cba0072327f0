"""fsspec file systems for the URIs of object stores and HDFS."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

WEBHDFS_PORT = 9870
RPC_PORTS = (8020, 9000)
"""The NameNode's ports for Hadoop's own protocol; a URI that names one means the NameNode, not that port."""
RETRIES = timedelta(seconds=15)
"""Within one reading of an object from Google's store; the driver's own limit is a quarter of an hour."""


def file_system(uri: str, storage: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the fsspec file system of a URI, and the path in it; object stores use the drivers of pyarrow."""
    import fsspec
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import fs

    scheme, path = uri.split("://", 1)
    if scheme in {"gs", "gcs"}:
        return ArrowFSWrapper(fs.GcsFileSystem(**{"retry_time_limit": RETRIES, **storage})), path
    if scheme in {"s3", "s3a"}:
        return ArrowFSWrapper(fs.S3FileSystem(**{**_s3_endpoint(), **storage})), path
    if scheme in {"hdfs", "webhdfs"}:
        from dtj_trainer.storage.webhdfs import WebHdfs

        parts = urlsplit(by_webhdfs(uri))
        return WebHdfs(**{"host": parts.hostname, "port": parts.port, "user": parts.username, **storage}), parts.path
    return fsspec.core.url_to_fs(uri, **storage)


def _s3_endpoint() -> dict[str, str]:
    """Return the endpoint that the environment sets; if only the driver read it, it would use `bucket.host`."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    parts = urlsplit(url or "")
    return {"scheme": parts.scheme, "endpoint_override": parts.netloc} if parts.netloc else {}


def by_webhdfs(uri: str) -> str:
    """Rewrite hdfs:// to the NameNode's HTTP interface, which needs no Hadoop and no Java here."""
    parts = urlsplit(uri)
    if parts.scheme != "hdfs":
        return uri
    port = WEBHDFS_PORT if parts.port is None or parts.port in RPC_PORTS else parts.port
    user = f"{parts.username}@" if parts.username else ""
    return urlunsplit(("webhdfs", f"{user}{parts.hostname}:{port}", parts.path, "", ""))
