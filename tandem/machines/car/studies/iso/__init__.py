"""Manoeuvres every car is judged by, driven offline, each figure beside what theory predicts for the same parameters.

    vehicle    the car that is driven, and what linear theory knows of it
    runner     hands and feet, and the compiled loop that drives
    theory     a steady turn by linear theory
    circle     steady-state circle, after ISO 4138
    transient  step steer and sine sweep, after ISO 7401
    lanes      double lane changes, after ISO 3888-1 and ISO 3888-2
    straight   braking, coasting
    turning    braking in a turn, after ISO 7975
    slope      parking and starting on 10 %
    ride       eigenfrequencies of the standing car
    result     figures and pictures of a test
    tables     tables and page

"After" means: the manoeuvre is that of the standard; no claim is made to conform to it.
"""
