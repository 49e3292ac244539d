"""The pure half of the daemon."""
