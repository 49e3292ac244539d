"""The audit log: records, hash chain, sinks."""
