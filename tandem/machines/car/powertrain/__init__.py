"""A powertrain by its figures around a car: `[powertrain]` of its vehicle file.

| file | holds |
|---|---|
| `sections.py` | what the file may say |
| `layout.py` | inputs, states, outputs, parameters; what stands where |
| `law.py` | what both cars have of it |
| `step.py` | the step around the single-track car, in substeps of that |
| `implicit.py` | its torques inside the implicit step of the multibody car |
| `with_buggy.py` | the step around that |
| `make.py` | from the file to the machine |
"""
