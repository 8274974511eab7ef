module extauthz.dev/tests/controlplane/registry

go 1.26.0

require github.com/distribution/distribution/v3 v3.1.2
