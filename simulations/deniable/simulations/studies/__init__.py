"""The studies, one module or folder each; `frame.registry` names them."""
