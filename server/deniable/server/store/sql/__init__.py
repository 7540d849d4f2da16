"""What both stores say in the same SQL: tables, queries and the rows that they make."""
