"""The demo: real digits, real training, a real registry, and the gate between a model and its release."""
