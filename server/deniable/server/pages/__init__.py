"""The dashboard: pages for analysts and operators."""
