"""`tandem vehicle report`: kinematics and compliance of a vehicle file, beside the multibody car that is made from it.

parameters   from a vehicle file to what `tandem/machines/car/buggy/analysis` reads; `tandem iso` has it from here too
comparison   the mechanism against the closed-form suspensions, over travel and rack
report       all figures, SI
drive_report what the report of a drive has beside that of any run
shown        the same as tables and curves, in mm and degrees
"""
