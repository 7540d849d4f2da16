"""The aggregation server: takes reports, keeps tallies, answers with estimates and intervals."""
