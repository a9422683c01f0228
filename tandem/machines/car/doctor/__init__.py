"""What the car brings to `tandem doctor`: how strongly wheel and pedals may be felt on this machine."""

from tandem.doctor.findings import Check, Rows
from tandem.machines.car.doctor import feel, pedals

ROWS = Rows((Check("haptic gain", feel.gain), Check("haptic axes", pedals.pedals)), feel.unlimited, feel.held_down)
