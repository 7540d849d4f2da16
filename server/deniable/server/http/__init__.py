"""HTTP: `intake_front` answers devices from one event loop; `api` answers programs through Flask.

`front` is the loop that intake and relay share, `uploads` the way of a report to the writer.
"""
