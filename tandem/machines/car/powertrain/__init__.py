"""A powertrain by its figures around the single-track car: `[powertrain]` of its vehicle file.

| file | holds |
|---|---|
| `sections.py` | what the file may say |
| `layout.py` | inputs, states, outputs, parameters; what stands where |
| `step.py` | the law, and the step |
| `make.py` | from the file to the machine |
"""
