"""What docker-compose.yml runs beside the real parts (docs/compose.md): python -m extauthz.testing.compose."""
