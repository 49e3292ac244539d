"""The files of config/ that run an installation: each by its own public validator, and what they promise by trial."""
