"""Pages to text."""
