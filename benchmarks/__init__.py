"""Measurements and checks that are too slow or too particular for the test suite; `make help` names them."""
