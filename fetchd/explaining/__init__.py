"""What log and policy say to who asks: why a fetch ended so, what a URL would get, which rules a run needs."""
