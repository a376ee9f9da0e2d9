"""Archives that depend on their content only: sorted names, one date, root as owner.

Not here: which files a package has (stage.py).
"""

import gzip
import io
import pathlib
import tarfile


def tar(entries, date, owners=None):
    """An uncompressed archive. `entries` maps a name to bytes and a mode, or to None for a folder of mode 755.

    A folder with another mode is `(None, mode)`. `owners` maps a name to the numbers of its user and group.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(entries):
            content, mode = entries[name] or (None, 0o755)
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.mode = date, mode
            entry.uid, entry.gid = (owners or {}).get(name, (0, 0))
            entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            entry.size = 0 if content is None else len(content)
            archive.addfile(entry, io.BytesIO(content or b""))
    return buffer.getvalue()


def compressed(data):
    """The bytes as gzip makes them, without a date or a name."""
    return gzip.compress(data, 6, mtime=0)


def tree(folder):
    """All files below a folder: their names, contents and modes."""
    folder = pathlib.Path(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777) for path in files}


def below(prefix, entries):
    """The entries below a folder, and the folders on the way to them."""
    placed = {f"{prefix}/{name}": entry for name, entry in entries.items()}
    return folders(placed) | placed


def folders(entries):
    """Every folder that an entry lies in."""
    parents = {parent.as_posix() for name in entries for parent in pathlib.PurePosixPath(name).parents}
    return {name: None for name in parents - {".", "/"}}
