"""The whole of it, as agents and operators meet it: real processes, real clients."""
