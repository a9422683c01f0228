"""Where the hook of the forces (forces.py) finds what it is given and leaves its results, and the head of a car's
integers. Nothing here is compiled."""

from tandem.machines.car.buggy import brake_parameters, driveline_parameters
from tandem.machines.car.buggy.bodies import BODY_POINTS
from tandem.machines.car.buggy.description import PARAMETERS, WHEEL, P
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.transient import OUTPUTS
from tandem.machines.car.tyres.transient import STATES as TYRE_STATES

# the head of a car's integer tables; the core's are behind it
SIZE, NUMBERS, RACK_ROW, RACK_INPUT, PORTS, SPIN = range(6)  # SPIN: coordinate of each wheel
HEAD = SPIN + 4

# where the parameters of parts begin
BRAKE_PARAMETERS = int(P[brake_parameters.PARAMETERS[0].name])
DRIVELINE_PARAMETERS = int(P[driveline_parameters.PARAMETERS[0].name])
BRAKE_SIZE, DRIVELINE_SIZE = len(brake_parameters.PARAMETERS), len(driveline_parameters.PARAMETERS)

# the hook's `live`, constant for a step: the parameters, and behind them
THROTTLE = len(PARAMETERS)
DRIVE = THROTTLE + 1  # torque on the rear axle, where it is given from outside
RATIO = THROTTLE + 2  # of the gearbox, as it is engaged
PRESSURE = THROTTLE + 3  # bar, of each brake
LIVE = THROTTLE + 7

# its constants: what was made of the parameters, then the front and the rear tyre, then the road
STOPS = 0  # spring lengths where the stops begin: front pressed, extended; rear
CENTRE = 4  # of gravity against the chassis point, in the chassis' vectors
REFERENCE_HEIGHT = 7  # height of the wheel centres above the centre of gravity as drawn
RACK_SIGN = 11  # +1 or -1: of the rack against the hand wheel
STOP_SHARES = 12  # of stop_rate, along the spring, in the order of STOPS
FRAMES = 16  # reciprocal metric (9) and axle (3) in the basis of each knuckle; then of the chassis
FRAME = 12
BODY = FRAMES + 4 * FRAME + 9  # points of body and roll cage from the centre of gravity, in the chassis' vectors
TYRES = BODY + 3 * BODY_POINTS
TYRE = len(T)
ROAD = TYRES + 2 * TYRE

# states of the elements, and what is left behind them
PER_WHEEL = len(WHEEL)
BRAKES = 4 * TYRE_STATES
BRAKE_STATES = len(brake_parameters.STATES)
ENGINE = BRAKES + 4 * BRAKE_STATES
LEFT = ENGINE + len(driveline_parameters.STATES)
AXLE_TORQUE = LEFT + 4 * PER_WHEEL
DRAG = AXLE_TORQUE + 1
BODY_LOAD = DRAG + 1
TYRE_OUT = BODY_LOAD + 1  # by the tyre that was asked last; the first two places are then
ENERGY, POWER = TYRE_OUT, TYRE_OUT + 1  # of contact and stops: J in them, or UNKNOWN; W that they give
UNKNOWN = -1.0
STATES = TYRE_OUT + OUTPUTS
POWERTRAIN = STATES  # behind them, of a car with a powertrain: what that leaves; and behind LIVE what it reads

# states of a car in relative coordinates beside coordinates and velocities: deflections of the tyres, engine's speed
ADDED = 4 * 2 + 1
