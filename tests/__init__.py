"""The tests: loopback only, real parts over mocks; files mirror the source."""
