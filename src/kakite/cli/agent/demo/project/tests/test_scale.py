import unittest

from thermo import to_fahrenheit, to_kelvin


class ScaleTest(unittest.TestCase):
    def test_water_boils_at_212_degrees_fahrenheit(self):
        self.assertEqual(to_fahrenheit(100), 212)

    def test_water_freezes_at_273_kelvins(self):
        self.assertEqual(to_kelvin(0), 273.15)

    def test_an_impossible_temperature_is_named(self):
        for convert in (to_fahrenheit, to_kelvin):
            with self.assertRaisesRegex(ValueError, "-300"):
                convert(-300)


if __name__ == "__main__":
    unittest.main()
