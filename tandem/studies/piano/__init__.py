"""`tandem study piano`: a key pressed, regulated, struck and repeated, offline (docs/piano.md)."""
