"""Tyres: property files, the Magic Formula, and what makes it follow slip in time and stand still."""
