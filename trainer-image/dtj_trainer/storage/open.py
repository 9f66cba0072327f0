"""Opens the folder of a path or URI."""

from dtj_trainer.storage.folder import Folder


def open_folder(directory: str) -> Folder:
    """Return the folder of a path or URI; nothing is read or created yet."""
    if "://" in directory and not directory.startswith("file://"):
        from dtj_trainer.storage.remote_folder import RemoteFolder

        return RemoteFolder(directory)
    from dtj_trainer.storage.local_folder import LocalFolder

    return LocalFolder(directory.removeprefix("file://"))
