from thermo.scale import to_fahrenheit, to_kelvin

__all__ = ["to_fahrenheit", "to_kelvin"]
