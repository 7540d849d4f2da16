"""Work in many pieces, here or on a cluster, and how far it is: for archives and for studies."""
