"""What the daemon keeps: blobs and records."""
