module extauthz.dev/tests/controlplane/compose

go 1.26.0

require github.com/docker/compose/v2 v2.40.3
