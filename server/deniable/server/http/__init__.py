"""HTTP: `intake_front` answers devices from one event loop; `api` answers programs through Flask.

`front` is the loop that intake and the relay share. A report goes through `uploads` to the writer.
`middleware` wraps the reader's application, and `openapi` describes the interface.
"""
