"""Temperatures on three scales."""

ABSOLUTE_ZERO = -273.15


def to_fahrenheit(celsius):
    """Return degrees Fahrenheit."""
    if celsius < ABSOLUTE_ZERO:
        raise ValueError("below absolute zero")
    return celsius * 9 / 5 - 32


def to_kelvin(celsius):
    """Return kelvins."""
    if celsius < ABSOLUTE_ZERO:
        raise ValueError("below absolute zero")
    return celsius - ABSOLUTE_ZERO
