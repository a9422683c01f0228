"""Blocks between processes and hosts: messages, the newest-only wire, keys, the socket guard, another host's clock."""
