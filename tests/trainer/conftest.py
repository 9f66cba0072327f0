"""Stores of data and Keras 2, made once a session for the tests that ask for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.stores.gcs import ObjectStore, object_store
from e2e.stores.hdfs import Hdfs, hdfs, on_loopback
from e2e.stores.s3 import S3, s3
from tests.support import keras_2 as installed


@pytest.fixture(scope="session")
def hadoop() -> Iterator[Hdfs]:
    """A NameNode and a DataNode, fetched, cached and started when first asked for."""
    with hdfs(on_loopback()) as running:
        yield running


@pytest.fixture(scope="session")
def objects() -> Iterator[ObjectStore]:
    """An object store with an empty bucket `logs`."""
    with object_store("logs") as running:
        yield running


@pytest.fixture(scope="session")
def s3_store() -> Iterator[S3]:
    """An S3 store with an empty bucket `logs`."""
    with s3("logs") as running:
        yield running


@pytest.fixture(scope="session")
def keras_2() -> Path:
    """The folder that `tf_keras` is imported from."""
    return installed.folder()
