"""Studies of machines offline: manoeuvres, kinematics and compliance, formulations beside other codes."""
