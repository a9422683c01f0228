"""Motions that are known without us: what the integrators are judged against.

Nothing here shares a line with the formulations it judges: no natural coordinates, no constraints, no multipliers, no
compiled code. Every mechanism is described in as few coordinates as it has freedoms, and solved by a method that is
exact or far more accurate than any integrator under test:

    elliptic      Jacobi's functions by the arithmetic-geometric mean
    closed_form   pendulum, oscillator, rotor: formulas
    one_freedom   any linkage of one freedom, from where its particles are: by quadrature, or as one equation of motion
    linkages      slider-crank, four-bar, N-four-bar, spatial slider-crank, Bricard: where their particles are
    chains        planar chains of rods by recursive (articulated-body) dynamics
    rigid_body    a body free or on its tip: Euler's equations
    extrapolation the integrator of high order the last three use
    jets          first and second derivatives without differences

The tests hold each against another one, against an invariant, or against a special case everybody knows.
"""
