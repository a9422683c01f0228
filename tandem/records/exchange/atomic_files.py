"""Files and folders that appear whole or not at all."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sync.files.private import make_folder, written
from tandem.records.exchange.errors import ExchangeError


@contextmanager
def written_atomically(target: Path) -> Iterator[Path]:
    """A place to write a file or a folder. It becomes `target` at the end; if anything fails, it goes, and so do the
    folders that were made for it. Nothing is overwritten; an empty folder may be there."""
    new_folders = [folder for folder in target.parents if not folder.exists()]
    done = False
    try:
        make_folder(target.parent)
        with written(target) as part:
            yield part
        done = True
    except FileExistsError:
        raise ExchangeError(
            f"{target}: is there already; nothing is overwritten: remove it or give another --out"
        ) from None
    except OSError as error:
        raise ExchangeError(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        if not done:
            for folder in new_folders:
                with contextlib.suppress(OSError):
                    folder.rmdir()
