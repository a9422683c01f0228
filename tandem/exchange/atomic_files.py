"""Files and folders that appear whole or not at all."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sync.private_files import make_folder, rename
from tandem.exchange.errors import ExchangeError


@contextmanager
def written_atomically(target: Path) -> Iterator[Path]:
    """A name beside `target` to write a file or a folder under. It becomes `target` at the end; if anything fails,
    it goes, and so do the folders that were made for it. Nothing is overwritten; an empty folder may be there."""
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise ExchangeError(f"{target}: is there already; nothing is overwritten: remove it or give another --out")
    made = [folder for folder in target.parents if not folder.exists()]
    # the ending stays: some libraries insist on theirs
    part = target.parent / f".{target.stem}.{os.getpid()}.part{target.suffix}"
    done = False
    try:
        make_folder(target.parent)
        yield part
        rename(part, target)
        done = True
    except OSError as error:
        raise ExchangeError(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        if not done:
            _remove(part)
            for folder in made:
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):  # where nothing can be written: what is wrong has been said
            path.unlink(missing_ok=True)
