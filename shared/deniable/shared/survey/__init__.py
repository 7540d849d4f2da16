"""The survey document: questions, periods, strict reading, signatures."""
