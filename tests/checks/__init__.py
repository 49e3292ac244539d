"""What `make check` holds beyond lint and types: that files of the repository agree with each other."""
