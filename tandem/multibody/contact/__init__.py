"""Unilateral contact of surfaces of revolution with a plane, on trees of one-freedom joints: tracking, complementarity,
Coulomb friction, and the step that holds all of it. It knows no machine."""
