"""`tandem keys`: the key pairs of hosts, made and listed. What they are for: sync/transport/keys.py, docs/remote.md."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sync.errors import ConfigError
from tandem.console.terminal import AsJson, errors


def keys(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Of a new pair, such as daq. Without it, what is there."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Folder of keys.")] = Path("keys"),
    listed: Annotated[bool, typer.Option("--list", help="What is there; nothing is made.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the key pair of a host, for blocks that travel encrypted between hosts that know each other."""
    import re

    from sync.transport.keys import make_keys

    with errors():
        if name is None or listed:
            _print(_there(folder), folder, as_json)
            return
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name):
            raise ConfigError(f"{name}: a name of a key has small letters, digits and _, such as daq")
        public, secret = make_keys(folder, name)
        if as_json:
            print(json.dumps({"public": str(public), "secret": str(secret)}), flush=True)
            return
        print(f"{public}: public. Copy it into the folder of keys of every host this one has to do with, such as\n")
        print(f"    scp {public} OTHER_HOST:tandem/{folder.name}/\n")
        print(f"{secret}: secret. It stays on this host, readable by you alone.\n")
        print("Both hosts: transport.keys is the folder, relative to the configuration file; for one in configs/, of a")
        print(f'folder beside it: keys = "../{folder.name}" (docs/remote.md).')


def _there(folder: Path) -> dict[str, str]:
    """What each key of a folder is, by its name."""
    from sync.transport.keys import PUBLIC, SECRET

    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; `tandem keys NAME --folder {folder}` makes it and a first pair")
    found = sorted({p.name.removesuffix(end) for end in (PUBLIC, SECRET) for p in folder.glob(f"*{end}")})
    there = {}
    for name in found:
        public, secret = (folder / (name + end) for end in (PUBLIC, SECRET))
        if secret.exists() and secret.stat().st_mode & 0o077:
            what = f"a pair, but others may read its secret key: chmod 600 {secret}"
        elif secret.exists() and public.exists():
            what = "a pair of this host"
        else:
            what = "public: that host may connect" if public.exists() else f"secret only, {public.name} is missing"
        there[name] = what
    return there


def _print(there: dict[str, str], folder: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"folder": str(folder), "keys": there}), flush=True)
        return
    for name, what in there.items():
        print(f"{folder / name}  {what}")
    if not there:
        print(f"{folder}: no keys")
