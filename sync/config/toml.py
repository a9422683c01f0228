"""TOML files as pydantic models, or as an error that a person can act on.

`read` turns any TOML file into a model, or into a `ConfigError` that names, for everything wrong in it, the file, the
key, the value and what would be right. Unknown keys are refused: a misspelt setting must not pass as a default.
"""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Tag, ValidationError

from sync.errors import ConfigError, near_names
from sync.files.regular import open_regular
from sync.visible import listed, on_one_line

_MOST_TOML = 256 * 1024  # the longest that we ship has some thousand
_MOST_FINDINGS = 50
_LONG = 200  # letters of a key or of a value in a message
_DEEPEST_KEY = 32  # tables in a dotted key; the parser takes the square of it
# strings and comments, whose dots are not of a key; without its closing quotes a string ends with its line or file
_TEXT = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)|'{3}(?:[^']|'(?!''))*+(?:'{3}|\Z)'''
    r"""|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|\#[^\n]*+""",
    re.DOTALL,
)
_AROUND_DOT = re.compile(r"(?<![ \t])[ \t]*+\.[ \t]*+")
_DOTTED = re.compile(r"[^\s,=\[\]{}]++")


_TYPE = re.compile(r"(constrained-)?(str|int|float|bool)|list\[.*\]")  # as pydantic names a member of a union
CHOICE = "kind = "  # begins the tag of a union's member: which one was meant, no key


class Section(BaseModel):
    """Base of every table: frozen, strict about types and keys, finite numbers only."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


SectionT = TypeVar("SectionT", bound=Section)
Origins = dict[tuple[Any, ...], str]  # which fragment a value came from


def read(path: Path, model: type[SectionT]) -> SectionT:
    return check(model, read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            data = file.read(_MOST_TOML + 1)
    except FileNotFoundError:
        near = listed(p.name for p in path.parent.glob("*.toml"))
        raise ConfigError(f"{path}: no such file" + f"; beside it: {near}" * bool(near)) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, a TOML file is expected") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a zero in its name
        raise ConfigError(f"{path!s}: is no name of a file: {error}") from None
    return parse_toml(data, str(path))


def parse_toml(data: bytes, where: str) -> dict[str, Any]:
    """From the bytes of a file; `where` is for the messages. No text takes the parser longer than a second."""
    if len(data) > _MOST_TOML:
        raise ConfigError(f"{where}: more than {_MOST_TOML} bytes; no configuration is that long")
    try:
        text = data.decode()
        for key in _DOTTED.findall(_AROUND_DOT.sub(".", _TEXT.sub("_", text))):
            if key.count(".") >= _DEEPEST_KEY:
                raise ValueError(f"{key[:40]}...: a key of {key.count('.') + 1} tables; at most {_DEEPEST_KEY}")
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of an integer too long, of brackets too deep
        raise ConfigError(f"{where}: not valid TOML: {error}") from None


def check(
    model: type[SectionT], data: dict[str, Any], file: str, prefix: str = "", origins: Origins | None = None
) -> SectionT:
    """`data` as `model`; `prefix` is the table it came from, `origins` the fragments, for the messages."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = _meant(error.errors(), data)
        lines = [_say(model, e, file, prefix, origins or {}) for e in found[:_MOST_FINDINGS]]
        lines += [f"{file}: ... and {len(found) - _MOST_FINDINGS} more"] * (len(found) > _MOST_FINDINGS)
        raise ConfigError("\n".join(lines)) from None


def _meant(found: list[Any], data: Any) -> list[Any]:
    """Findings whose paths have no types of a union, as in `number or list`; of each value only the deepest."""
    plain: list[tuple[bool, Any]] = []
    for error in found:
        here, path = data, []
        for part in error["loc"]:
            held = here[part] if isinstance(here, dict) and part in here else None
            if isinstance(here, list) and isinstance(part, int) and part < len(here):
                held = here[part]
            elif held is None and _TYPE.fullmatch(str(part)):
                continue
            here = held
            path.append(part)
        plain.append((len(path) < len(error["loc"]), {**error, "loc": tuple(path)}))
    above = {error["loc"][:k] for _, error in plain for k in range(len(error["loc"]))}  # of a deeper finding
    out, there = [], set()
    for chosen, error in plain:
        place = error["loc"]
        if not chosen or not (place in above or place in there):
            out.append(error)
            there.add(place)
    return out


def with_overrides(data: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """`data` with `key.path=value` settings, each a TOML value, put into it."""
    for override in overrides:
        *tables, last = key_of(override)
        _, found, value = override.partition("=")
        if not found or not (tables or last):
            raise ConfigError(f"--set {_short(override)}: expected KEY=VALUE, such as daq.rate_hz=2000")
        try:
            parsed = parse_toml(f"v = {value}".encode(errors="surrogatepass"), "--set")["v"]
        except ConfigError:
            parsed = value.strip()  # a bare word is a string
        place = data
        for table in tables:
            place = place.setdefault(table, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {override}: {table} is not a table")
        place[last] = parsed
    return data


def key_of(override: str) -> list[str]:
    """The key of a setting, table by table."""
    return override.partition("=")[0].strip().split(".")


def lay_over(
    data: dict[str, Any], fragment: dict[str, Any], file: str, origins: Origins, above: tuple[str, ...] = ()
) -> None:
    """Merge tables; any other value of the fragment replaces the earlier one."""
    for key, value in fragment.items():
        place = (*above, key)
        if not isinstance(value, dict):
            if isinstance(data.get(key), dict):
                for origin in [o for o in origins if o[: len(place)] == place]:
                    del origins[origin]
            data[key], origins[place] = value, file
            continue
        if key not in data:
            data[key], origins[place] = {}, file
        if not isinstance(data[key], dict):
            raise ConfigError(f"{file}: {'.'.join(place)}: is a table, but none in what it goes over")
        lay_over(data[key], value, file, origins, place)


def _origin(file: str, location: list[Any], origins: Origins) -> str:
    """Where a wrong value stands: in a fragment, in the file, or, of a table, in several."""
    for end in range(len(location), 0, -1):
        if tuple(location[:end]) in origins:
            return origins[tuple(location[:end])]
    if not location:
        return file
    parts = [origins[o] for o in origins if list(o[: len(location)]) == location]
    return " with ".join(dict.fromkeys([file, *parts]))


def _say(model: type[BaseModel], error: Any, file: str, prefix: str, origins: Origins) -> str:
    """One finding on one line: file, key, value, what would be right."""
    path = [part for part in error["loc"] if part not in ("function-after", "[key]")]
    location = [part for part in path if not str(part).startswith(CHOICE)]
    file = _origin(file, location, origins)
    key = prefix
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    key = _short(on_one_line(key))
    if error["type"] == "missing":
        return f"{file}: {key}: is missing"
    value = error["input"]
    try:
        shown = "" if isinstance(value, dict | BaseModel) else _short(f" = {value!r}")
    except ValueError:  # an integer of more digits than Python prints
        shown = ""
    if error["type"] == "extra_forbidden":
        near = near_names(str(location[-1]), _known_keys(model, path[:-1]), 1)
        return f"{file}: {key}{shown}: unknown key" + (f"; did you mean {near[0]}?" if near else "")
    if error["type"] == "string_pattern_mismatch":
        error = {**error, "msg": _in_words(error["ctx"]["pattern"])}
    message = re.sub("^(Input|List|Tuple|Dictionary|String) should", "must", error["msg"].removeprefix("Value error, "))
    message = message.replace(" after validation", "")
    return f"{file}: {key}{shown}: {message}" if key else f"{file}: {message}"


def _in_words(pattern: str) -> str:
    """What a text must be like, of the patterns that ours have: letters in turn, and how many."""
    spoken = {
        "[a-z]": "a small letter", "[a-z0-9_]": "small letters, digits and _",
        "[A-Z0-9]": "a capital letter or a digit",
        "[A-Za-z0-9]": "a letter or a digit", "[A-Za-z0-9 _-]": "letters, digits, spaces, _ and -",
    }  # fmt: skip
    parts = re.fullmatch(r"\^\(?(\[[^]]+\])(?:(\[[^]]+\])\{0,(\d+)\})?(?:\|(\w+))?\)?(\?)?\$", pattern)
    if parts is None or parts[1] not in spoken or (parts[2] and parts[2] not in spoken):
        return f"must match {pattern}"
    then = f", then {spoken[parts[2]]}, at most {int(parts[3]) + 1} in all" if parts[2] else ""
    other = f", or {parts[4]}" if parts[4] else ""
    return f"must be {spoken[parts[1]]}{then}{other}{', or empty' if parts[5] else ''}"


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def _known_keys(model: type[BaseModel], path: list[Any]) -> list[str]:
    """Of the table at `path`, in which a member of a union is named by its tag."""
    here: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        if get_origin(here) is dict:
            here = get_args(here)[1]
            continue
        if str(part).startswith(CHOICE):
            here = next(get_args(m)[0] for m in get_args(get_args(here)[0]) if Tag(part) in m.__metadata__)
        else:
            here = here.model_fields[part].annotation
        while not (get_origin(here) is dict or (isinstance(here, type) and issubclass(here, BaseModel))):
            inner = [a for a in get_args(here) if a is not type(None)]
            if not inner:
                return []
            here = inner[0]
    return list(getattr(here, "model_fields", ()))
