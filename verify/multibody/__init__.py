"""The multibody formulations on mechanisms with a known answer, and beside other codes, in one run on one machine."""
