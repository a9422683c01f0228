"""What the driver of the multibody car feels at the wheel, predicted and driven.

caster     the swerve around an obstacle at 75 km/h with three caster trails
protocol   the same with test persons: hidden trails in random order, what they drove, how they rated it
sweep      torque per motion of the hand wheel over frequency: the port of the car, two ways
port       a car at its port between two steps: torque by the newest angle
hands_off  the wheel let go, with a delay between angle and torque: where oscillation begins
"""
