"""Platforms that an FMU can have code for, and who compiles and links for them from here."""

import platform as host
import shutil
from dataclasses import dataclass
from importlib.util import find_spec

from sync.child_python import python_command
from sync.config.extras import install_extra
from sync.errors import ConfigError

_ARCHITECTURES = {"AMD64": "x86_64", "arm64": "aarch64"}  # other names of the same
HOST = f"{_ARCHITECTURES.get(host.machine(), host.machine())}-linux"


@dataclass(frozen=True)
class Platform:
    name: str  # as FMI calls it
    triple: str  # as LLVM does
    ending: str  # of a library
    compilers: tuple[str, ...]  # besides zig's
    zig: str  # its name of the target
    links: tuple[str, ...]  # besides what is the same everywhere


_ELF, _ANY, _OLD = ("-lm", "-Wl,--no-undefined"), ("-lm",), "gnu.2.17"  # a C library of 2012
PLATFORMS = {
    p.name: p
    for p in (
        Platform(
            "x86_64-linux", "x86_64-unknown-linux-gnu", "so", ("x86_64-linux-gnu-gcc",), f"x86_64-linux-{_OLD}", _ELF
        ),
        Platform(
            "aarch64-linux", "aarch64-unknown-linux-gnu", "so", ("aarch64-linux-gnu-gcc",), f"aarch64-linux-{_OLD}",
            _ELF,
        ),
        Platform(
            "x86_64-windows", "x86_64-w64-windows-gnu", "dll", ("x86_64-w64-mingw32-gcc",), "x86_64-windows-gnu", _ANY
        ),
        Platform("x86_64-darwin", "x86_64-apple-macosx11.0.0", "dylib", (), "x86_64-macos", ()),
        Platform("aarch64-darwin", "arm64-apple-macosx11.0.0", "dylib", (), "aarch64-macos", ()),
    )
}  # fmt: skip


def find_platform(name: str) -> Platform:
    if name not in PLATFORMS:
        raise ConfigError(f"--platform {name}: must be one of {', '.join(PLATFORMS)}")
    return PLATFORMS[name]


def compiler(platform: Platform) -> list[str]:
    """The command, or a ConfigError that says what to install."""
    own = ("cc", "gcc", "clang") if platform.name == HOST else ()
    for name in (*own, *platform.compilers):
        if found := shutil.which(name):
            return [found]
    if find_spec("ziglang") is not None:
        return [*python_command("-m", "ziglang", "cc"), "-target", platform.zig]
    if platform.name == HOST:
        raise ConfigError("an FMU needs a C compiler (cc, gcc or clang), and none is on the path of this user")
    others = f"{' or '.join(platform.compilers)}, or " if platform.compilers else ""
    raise ConfigError(
        f"--platform {platform.name}: needs {others}a cross compiler of Python's own: {install_extra('fmu')}"
    )
