"""The daemon: fetches through the gateway and returns what a model may read."""
