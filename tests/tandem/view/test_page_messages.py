"""What a page may send: widgets are set by value, within their limits; everything else never reaches the library."""

import math
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from websockets.exceptions import ConnectionClosed

from tandem.view.messages import MOST_BYTES, Rejected, checked
from tandem.view.process import Page
from tests.sync.actors import PATIENCE_S
from tests.tandem.view.pages import logged_in, page_of, port_of, session


def widget(kind: str, **props: Any) -> Any:
    return SimpleNamespace(_impl=SimpleNamespace(props=type(kind, (), props)()))


WIDGETS = {
    "slider": widget("GuiSliderProps", min=0.0, max=0.3),
    "number": widget("GuiNumberProps", min=None, max=5.0),
    "vector": widget("GuiVector3Props", min=None, max=None),
    "box": widget("GuiCheckboxProps"),
    "text": widget("GuiTextProps"),
    "list": widget("GuiDropdownProps", options=("a", "b")),
    "group": widget("GuiButtonGroupProps", options=("a", "b")),
    "button": widget("GuiButtonProps"),
    "off": widget("GuiSliderProps", min=0.0, max=1.0, disabled=True),
    "upload": widget("GuiUploadButtonProps"),
}


def sent(message: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgpack.unpackb(checked(msgpack.packb(message), WIDGETS.get))
    return found


def update(uuid: str, value: Any) -> dict[str, Any]:
    return {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"value": value}}


@pytest.mark.parametrize(
    "uuid, value",
    [
        ("slider", 0.1), ("slider", 0), ("number", -1e9), ("vector", [1.0, -2, 3.5]), ("box", True), ("text", "words"),
        ("list", "b"), ("group", "a"), ("button", True),
    ],
)  # fmt: skip
def test_a_widget_is_set(uuid: str, value: Any) -> None:
    assert sent(update(uuid, value)) == update(uuid, value)


def test_the_last_step_of_a_slider_may_be_a_rounding_error_too_far() -> None:
    assert sent(update("slider", 0.30000000000000004))["updates"]["value"] == 0.3


@pytest.mark.parametrize(
    "uuid, value",
    [
        ("slider", 0.31), ("slider", math.nan), ("slider", math.inf), ("slider", "0.1"), ("slider", True),
        ("slider", None), ("slider", [0.1]), ("number", 5.1), ("number", math.inf), ("vector", [1.0, 2.0]),
        ("vector", [1.0, 2.0, math.nan]), ("vector", 1.0), ("box", 1), ("text", 1), ("text", "x" * 257), ("list", "c"),
        ("list", ["a"]), ("group", "c"), ("button", False), ("button", {}), ("off", 0.5), ("upload", "x"), ("gone", 1),
    ],
)  # fmt: skip
def test_a_value_of_another_type_or_out_of_range_is_rejected(uuid: str, value: Any) -> None:
    with pytest.raises(Rejected):
        sent(update(uuid, value))


@pytest.mark.parametrize("name", ["removed", "props", "update_cb", "is_button", "uuid", "sync_cb", "visible", "max"])
def test_nothing_but_the_value_of_a_widget_is_set(name: str) -> None:
    for updates in ({name: True}, {"value": 0.1, name: True}, {}, [["value", 0.1]]):
        with pytest.raises(Rejected):
            sent({"type": "GuiUpdateMessage", "uuid": "slider", "updates": updates})


CAMERA = {
    "type": "ViewerCameraMessage", "wxyz": [1.0, 0.0, 0.0, 0.0], "position": [1.0, 2.0, 3.0], "fov": 0.8, "near": 0.01,
    "far": 1000.0, "image_height": 450, "image_width": 800, "look_at": [0.0, 0.0, 0.0], "up_direction": [0.0, 0.0, 1.0],
}  # fmt: skip
GIZMO = {
    "type": "TransformControlsUpdateMessage", "name": "/hand", "wxyz": [1.0, 0.0, 0.0, 0.0],
    "position": [1.0, 2.0, 3.0], "owner": "",
}  # fmt: skip


def test_cameras_gizmos_and_commands_pass() -> None:
    drag = {"type": "TransformControlsDragStartMessage", "name": "/hand", "owner": ""}
    for message in (CAMERA, GIZMO, drag, {"type": "CommandTriggerMessage", "uuid": "x"}):
        assert sent(message) == message


@pytest.mark.parametrize(
    "change",
    [
        {"position": [1.0, 2.0]}, {"position": [1.0, 2.0, math.nan]}, {"position": [1.0, 2.0, 1e300]}, {"wxyz": None},
        {"more": 1}, {"excluded_self_client": 1},
    ],
)  # fmt: skip
def test_cameras_and_gizmos_are_finite_and_complete(change: dict[str, Any]) -> None:
    for message in (CAMERA, GIZMO):
        with pytest.raises(Rejected):
            sent(message | change)


@pytest.mark.parametrize(
    "kind",
    [
        "FileTransferStartUpload", "FileTransferPart", "ShareUrlRequest", "ShareUrlDisconnect", "RunJavascriptMessage",
        "GuiFormSubmitMessage", "GuiFormDirtyMessage", "GuiButtonHoldMessage", "ScenePointerMessage",
        "SceneNodeClickMessage", "GetRenderResponseMessage", "SceneNodeUpdateMessage", "GuiRemoveMessage", "",
    ],
)  # fmt: skip
def test_messages_that_no_page_of_ours_sends_are_rejected(kind: str) -> None:
    for message in ({"type": kind}, {"type": kind, "uuid": "slider"}, {"type": [kind]}, {"type": None}):
        with pytest.raises(Rejected):
            sent(message)


def _nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\x90"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xc1", b"\x90", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", "text",
        b"\xdb\x7f\xff\xff\xff", msgpack.packb(CAMERA) + b"\x00", _nested(10_000), b"\xc4\x01\x00", b"\xd4\x00\x00",
        msgpack.packb({1: 2}), msgpack.packb("x" * (2 * MOST_BYTES)), b"\x81\xa4type\xa1\xff",
    ],
)  # fmt: skip
def test_bytes_that_are_no_message_are_rejected(data: Any) -> None:
    with pytest.raises(Rejected):
        checked(data, WIDGETS.get)


# ---- a real server, and a client that is no page ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared() -> Iterator[Page]:
    with page_of("source.kind=page") as made:
        yield made


@pytest.fixture
def page(shared: Page) -> Page:
    shared.door.rejected = 0
    return shared


def until(what: Any, why: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, why
        time.sleep(0.01)


def cut_off(client: Any, messages: list[bytes]) -> bool:
    """Whether the server ends the connection upon these; what it sends till then is read."""
    try:
        for message in messages:
            client.send(message)
        while True:
            client.recv(PATIENCE_S)
    except ConnectionClosed:
        return True


def test_one_page_does_not_take_the_brake_from_another(page: Page) -> None:
    assert page.panel._by_hand is not None
    brake = page.panel._by_hand._sliders["brake"]._slider
    uuid, full = brake._impl.uuid, brake.max
    with logged_in(port_of(page)) as client:
        client.send(msgpack.packb(CAMERA))
        until(page.server.get_clients, "it is not known as a page")  # while there is none, the brake goes back to rest
        attacks = [{"removed": True}, {"value": math.nan}, {"value": full + 1.0}, {"sync_cb": None, "value": 1.0}]
        for updates in attacks:
            client.send(msgpack.packb({"type": "GuiUpdateMessage", "uuid": uuid, "updates": updates}))
        client.send(msgpack.packb(update(uuid, 0.5 * full)))
        until(lambda: brake.value == 0.5 * full, "the brake does not move any more")
        assert not brake._impl.removed and brake._impl.sync_cb is not None
        assert page.door.rejected == len(attacks)


def test_nothing_is_uploaded(page: Page) -> None:
    button = next(iter(page.server.gui._gui_input_handle_from_uuid))
    start = {
        "type": "FileTransferStartUpload", "source_component_uuid": button, "transfer_uuid": "t", "filename": "f",
        "mime_type": "", "part_count": 10**6, "size_bytes": 10**12,
    }  # fmt: skip
    part = {"type": "FileTransferPart", "source_component_uuid": button, "transfer_uuid": "t", "part_index": 0}
    with logged_in(port_of(page)) as client:
        client.send(msgpack.packb(start))
        client.send(msgpack.packb(part | {"content": b"x" * 8000}))
        until(lambda: page.door.rejected == 2, "the messages are not counted")
        assert not page.server.gui._current_file_upload_states
        assert cut_off(client, [msgpack.packb(part | {"content": b"x" * (MOST_BYTES + 1)})])


def test_a_client_that_sends_what_no_page_sends_is_cut_off(page: Page) -> None:
    with logged_in(port_of(page)) as client:
        assert cut_off(client, [msgpack.packb({"type": "ShareUrlRequest"})] * 1000)
    until(lambda: not page.door.pages, "its place is not free again")


def test_a_client_that_asks_and_never_reads_is_cut_off(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings are answered by the library underneath: their answers would fill the memory."""
    import viser

    monkeypatch.setattr("tandem.view.listen._MOST_UNREAD", 1 << 16)
    refused, port = page.door.refused, port_of(page)
    path, cookie = session(port)
    greeting = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nCookie: {cookie}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {'A' * 22}==\r\nSec-WebSocket-Protocol: viser-v{viser.__version__}\r\n\r\n"
    )
    ping = bytes([0x89, 0x80 | 125, 0, 0, 0, 0]) + b"p" * 125
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(greeting.encode())
        until(lambda: page.door.pages, "it has no session")
        with pytest.raises(ConnectionError):
            client.sendall(250_000 * ping)
    until(lambda: page.door.refused > refused, "it is not counted")
    until(lambda: not page.door.pages, "its place is not free again")
