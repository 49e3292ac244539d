"""The daemon's way to the gateway."""
