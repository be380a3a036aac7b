"""Where generations run: in worker processes, behind one protocol."""
