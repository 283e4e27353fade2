"""Models as the gate runs them: loading, and what goes in and comes out. Everything here runs in the worker, except ``outputs``, which
needs numpy only and with which the supervisor judges raw outputs.
"""
