"""What tools of others join a running simulation by: processes of their own, which read its rings and change nothing
but through the socket that takes every other command."""
