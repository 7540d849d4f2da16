"""`deniable demo`: a real server, published surveys and simulated people.

`verb` reads the options, and `demo` runs the demo. `server_process` starts the server and publishes
surveys, `crowd` answers them, and `demo_report` prints the truth next to every estimate and draws
the picture.
"""
