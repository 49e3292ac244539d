"""Names to addresses: one interface, a DNS client and a scripted fake."""
