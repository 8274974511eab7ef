module extauthz.dev/tests/controlplane/hey

go 1.26.0

require github.com/rakyll/hey v0.1.5
