"""Measurements, each beside its baseline in the same run; ratios, never times, are what counts."""
