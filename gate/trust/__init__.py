"""What the gate does to be trusted: digests of what it tested."""
