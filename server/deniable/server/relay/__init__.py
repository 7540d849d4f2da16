"""The relay: takes sealed reports from anyone, and passes them on in shuffled batches.

It needs no key, no survey and no database, and none of the libraries that the server needs but the
one that speaks HTTP. Whoever runs it should not be whoever runs the server.
"""
