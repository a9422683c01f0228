"""What can go wrong between a run and someone else's file."""

from sync.config.extras import install_extra
from sync.errors import TandemError


class ExchangeError(TandemError):
    """A file cannot be written, read or understood: names the file, what is wrong in it and what would be right."""

    code = 2


def extra_missing(package: str, extra: str) -> ExchangeError:
    return ExchangeError(f"{package} is not installed, which {extra} files need: {install_extra(extra)}")
