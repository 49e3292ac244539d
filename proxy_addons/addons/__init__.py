"""One addon, one job."""
