"""Optional software, imported when it is needed, or named with the extra that brings it."""

from importlib import import_module
from typing import Any

from sync.config.extras import install_extra
from sync.errors import ConfigError


def needs(module: str, extra: str, what: str) -> Any:
    """A module of an extra. Raises ConfigError that says what needs it and how to get it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ConfigError(
            f"{what}: needs {package}, which is not installed (the extra `{extra}`): {install_extra(extra)}"
        ) from None
