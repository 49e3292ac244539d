"""The real gateway, attacked: every entry path, every known bypass."""
