"""HTTP: `intake_front` answers devices from one event loop; `api` answers programs through Flask.

`front` is the loop that intake and relay share. A report goes through `uploads` to the writer.
`bounded_bodies` and `forwarded_headers` wrap the reader's application; `openapi` describes it all.
"""
