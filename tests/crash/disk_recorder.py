"""Records what the store does to its disk: SQLite's files through a VFS, all others through `fsio.DISK`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from holdfast import durable_io
from tests.crash.disk_model import FOLDER, Ack, Content, Name, Operation, Sync, SyncNames, Write

BASE_VFS = "unix"
JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


class Recorder:
    """The log of one folder's operations."""

    def __init__(self, root: str):
        self.root = root
        self.log: list[Operation] = []
        self.lock = threading.RLock()
        self.base: dict[str, Content] = {}
        self.folders: list[str] = []
        self._files: dict[str, int] = {}  # by path, as it is now
        self._descriptors: dict[int, int] = {}
        self._count = 0
        for folder, _, names in os.walk(root):
            if folder != root:
                self.folders.append(os.path.relpath(folder, root))
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    self.base[os.path.relpath(path, root)] = Content(file.read(), os.stat(path).st_mtime_ns)
        for path in self.base:
            self._files[path] = self._new()

    def ack(self, number: int) -> None:
        """A caller was answered."""
        with self.lock:
            self.log.append(Ack(number))

    def inside(self, path: str) -> str | None:
        """The path from the root, if it is below it."""
        path = os.path.realpath(path)
        return os.path.relpath(path, self.root) if path.startswith(self.root + os.sep) else None

    def file(self, path: str) -> int:
        """The file of that name; a new one if there was none."""
        if path not in self._files:
            self.name(path, self._new())
        return self._files[path]

    def name(self, path: str, file: int | None) -> None:
        """A name is given or taken."""
        if file is None:
            self._files.pop(path, None)
        elif file != FOLDER:
            self._files[path] = file
        self.log.append(Name(*os.path.split(path), file))

    def write(self, file: int, offset: int, data: bytes | None, mtime: int = 0) -> None:
        """Bytes are written, or the file is cut."""
        self.log.append(Write(file, offset, data, mtime))

    def sync_names(self, folder: str) -> None:
        """A folder is synced."""
        self.log.append(SyncNames("" if folder == "." else folder))

    def _new(self) -> int:
        self._count += 1
        return self._count - 1


class RecordedFile(apsw.VFSFile):
    """A file of SQLite's."""

    def __init__(self, recorder: Recorder, name: Any, flags: list[int]):
        given = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.path = recorder.inside(given) if given else None
        self.recorder = recorder
        # As SQLite's unix VFS: the first sync of a journal or WAL syncs its folder, too.
        self.new_journal = bool(flags[0] & JOURNALS and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__(BASE_VFS, name, flags)
        with recorder.lock:
            self.file = recorder.file(self.path) if self.path else FOLDER

    def xLock(self, level: int) -> None:  # noqa: N802
        """Locked; a reader that may not is only told so, as by SQLite's own VFS."""
        try:
            super().xLock(level)
        except apsw.IOError:
            raise apsw.BusyError("the file is open for reading only") from None

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Written and recorded."""
        with self.recorder.lock:
            super().xWrite(data, offset)
            if self.path:
                self.recorder.write(self.file, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        """Cut and recorded."""
        with self.recorder.lock:
            super().xTruncate(newsize)
            if self.path:
                self.recorder.write(self.file, newsize, None)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Only recorded: what a sync would bring is the model's matter."""
        with self.recorder.lock:
            if self.path:
                self.recorder.log.append(Sync(self.file))
                if self.new_journal:
                    self.recorder.sync_names(os.path.dirname(self.path))
                    self.new_journal = False


class RecordingVFS(apsw.VFS):
    """SQLite's file system, recorded."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        super().__init__("holdfast-recording", BASE_VFS, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> RecordedFile:  # noqa: N802
        """A recorded file."""
        return RecordedFile(self.recorder, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Deleted and recorded."""
        with self.recorder.lock:
            super().xDelete(filename, syncdir)
            if path := self.recorder.inside(filename):
                self.recorder.name(path, None)
                if syncdir:
                    self.recorder.sync_names(os.path.dirname(path))


class RecordingDisk:
    """What stands in for `durable_io.DISK`'s methods."""

    def __init__(self, recorder: Recorder):
        self._recorder = recorder
        self._real = durable_io.Disk()
        self._descriptors: dict[int, int] = {}

    def open(self, path: str, flags: int) -> int:
        """Opened; a new name is recorded."""
        with self._recorder.lock:
            fd = self._real.open(path, flags)
            if inside := self._recorder.inside(path):
                self._descriptors[fd] = self._recorder.file(inside)
            return fd

    def write(self, fd: int, data: bytes) -> None:
        """Appended."""
        with self._recorder.lock:
            self._real.write(fd, data)
            stat = os.fstat(fd)
            if fd in self._descriptors:
                start = stat.st_size - len(data)
                self._recorder.write(self._descriptors[fd], start, bytes(data), stat.st_mtime_ns)

    def truncate(self, fd: int, size: int) -> None:
        """Cut."""
        with self._recorder.lock:
            self._real.truncate(fd, size)
            self._recorder.write(self._descriptors[fd], size, None, os.fstat(fd).st_mtime_ns)

    def sync(self, fd: int) -> None:
        """Recorded only."""
        with self._recorder.lock:
            if fd in self._descriptors:
                self._recorder.log.append(Sync(self._descriptors[fd]))

    def close(self, fd: int) -> None:
        """Closed."""
        with self._recorder.lock:
            self._descriptors.pop(fd, None)
            self._real.close(fd)

    def link(self, old: str, new: str) -> None:
        """A second name."""
        with self._recorder.lock:
            self._real.link(old, new)
            before, after = self._recorder.inside(old), self._recorder.inside(new)
            assert before and after
            self._recorder.name(after, self._recorder.file(before))

    def unlink(self, path: str) -> None:
        """A name less."""
        with self._recorder.lock:
            folder, name = os.path.split(path)
            inside = self._recorder.inside(folder)
            self._real.unlink(path)
            assert inside
            self._recorder.name(os.path.join(inside, name), None)

    def rename(self, old: str, new: str) -> None:
        """Another name, in place of whatever had it."""
        with self._recorder.lock:
            before = self._recorder.inside(old)
            folder = self._recorder.inside(os.path.dirname(new))
            assert before and folder
            file = self._recorder.file(before)
            self._real.rename(old, new)
            self._recorder.name(os.path.join(folder, os.path.basename(new)), file)
            self._recorder.name(before, None)

    def make_dir(self, path: str) -> None:
        """A new folder."""
        with self._recorder.lock:
            self._real.make_dir(path)
            if inside := self._recorder.inside(path):
                self._recorder.name(inside, FOLDER)

    def sync_dir(self, path: str) -> None:
        """Recorded only."""
        with self._recorder.lock:
            if path == self._recorder.root:
                self._recorder.sync_names("")
            elif inside := self._recorder.inside(path):
                self._recorder.sync_names(inside)


@contextmanager
def recording(root: str) -> Iterator[Recorder]:
    """Record all that this process does below `root`, which is taken to be on disk as it is."""
    recorder = Recorder(os.path.realpath(root))
    disk = RecordingDisk(recorder)
    names = [name for name in vars(RecordingDisk) if not name.startswith("_")]
    vfs = RecordingVFS(recorder)
    for name in names:
        setattr(durable_io.DISK, name, getattr(disk, name))
    try:
        yield recorder
    finally:
        for name in names:
            delattr(durable_io.DISK, name)
        vfs.unregister()
        apsw.set_default_vfs(BASE_VFS)
