"""Agents' real clients through a real gateway, under the profiles that the repository ships."""
