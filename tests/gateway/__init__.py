"""The whole gateway, attacked from outside: a real process between real clients, origins and DNS."""
