"""The gateway's certificate authority."""
