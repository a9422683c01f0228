"""What a page shows and what a person does on it, without a browser: controls by their labels, nodes by their names."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import viser


def by_person(control: Any, value: Any = True) -> None:
    """As viser does for a value, or a click, that comes from a browser."""
    control._impl.value = value
    for act in control._impl.update_cb:
        act(viser.GuiEvent(None, 1, control))


class Seen:
    """The page of a server of viser: what was put there last under each label and each name, from now on."""

    def __init__(self, server: Any):
        self.controls: dict[str, Any] = {}
        self._nodes: dict[str, Any] = {}
        self._unnamed: dict[str, list[Any]] = {"add_html": [], "add_uplot": []}
        for api, found in ((server.gui, self.controls), (server.scene, self._nodes)):
            for name in [each for each in dir(api) if each.startswith("add_")]:
                setattr(api, name, self._noted(getattr(api, name), found, self._unnamed.get(name)))

    def _noted(self, add: Callable[..., Any], found: dict[str, Any], unnamed: list[Any] | None) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            made = add(*arguments, **options)
            if unnamed is not None:
                unnamed.append(made)
            elif arguments and isinstance(arguments[0], str):
                found[arguments[0]] = made
            return made

        return noted

    def __getitem__(self, label: str) -> Any:
        return self.controls[label].value

    def __setitem__(self, label: str, value: Any) -> None:
        by_person(self.controls[label], value)

    def node(self, name: str) -> Any:
        """None where it was removed, or never was."""
        found = self._nodes.get(name)
        return None if found is None or found._impl.removed else found

    def drag(self, name: str, to: tuple[float, float, float]) -> None:
        """A handle in the scene, as viser does for one that a browser moved."""
        handle = self.node(name)
        handle.position = to
        for act in handle._impl_aux.update_cb:
            act(None)

    @property
    def charts(self) -> list[Any]:
        return [each for each in self._unnamed["add_uplot"] if not each._impl.removed]

    @property
    def text(self) -> str:
        return "\n".join(each.content for each in self._unnamed["add_html"])


class Handle:
    """What viser gives for anything on a page."""

    def __init__(self, **properties: Any):
        self.__dict__.update(properties)
        self.callbacks: list[Callable[[Any], Any]] = []

    def on_update(self, callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
        self.callbacks.append(callback)
        return callback

    on_click = on_trigger = on_update

    def remove(self) -> None: ...

    def by_hand(self, value: Any = True) -> None:
        self.value = value
        self.moved(1)

    def moved(self, client: int | None) -> None:
        """As viser says it: by somebody's page, or by the program itself."""
        for callback in self.callbacks:
            callback(Event(self, client))


class Event:
    def __init__(self, target: Handle, client: int | None):
        self.target, self.client, self.client_id = target, client, client


class Gui:
    """A page that nobody sees: handles by label."""

    def __init__(self) -> None:
        self.by_label: dict[str, Handle] = {}

    def _add(self, label: str, **properties: Any) -> Handle:
        self.by_label[label] = Handle(visible=True, **properties)
        return self.by_label[label]

    def add_slider(self, label: str, min: float, max: float, step: float, initial_value: float, **_: Any) -> Handle:
        assert min <= initial_value <= max and step > 0
        return self._add(label, min=min, max=max, value=initial_value)

    def add_checkbox(self, label: str, initial_value: bool, **_: Any) -> Handle:
        return self._add(label, value=initial_value)

    def add_text(self, label: str, value: str, **_: Any) -> Handle:
        return self._add(label, value=value)

    def add_dropdown(self, label: str, options: tuple[str, ...], initial_value: str | None = None, **_: Any) -> Handle:
        assert not initial_value or initial_value in options
        return self._add(label, value=initial_value or options[0])

    def add_button_group(self, label: str, options: tuple[str, ...], **_: Any) -> Handle:
        return self._add(label, value=options[0], options=options)

    def add_button(self, label: str, **_: Any) -> Handle:
        return self._add(label, value=False)

    def add_command(self, label: str, hotkey: str, **_: Any) -> Handle:
        return self._add(f"key {hotkey}", text=label)

    def add_html(self, content: str, **_: Any) -> Handle:
        return self._add(f"html {len(self.by_label)}", content=content, order=0.0)

    def add_uplot(self, data: Any, series: Any, **_: Any) -> Handle:
        return self._add(f"plot {len(self.by_label)}", data=data, series=series)

    def add_folder(self, label: str, **_: Any) -> AbstractContextManager[Any]:
        return nullcontext(nullcontext())

    def add_divider(self) -> None: ...

    @property
    def text(self) -> str:
        return "\n".join(str(h.__dict__["content"]) for h in self.by_label.values() if "content" in h.__dict__)
