"""Everything between the gate and MLflow: which model is meant, its files, what it says of itself, and where results go.

MLflow is imported inside functions only: importing this package costs nothing.
"""
