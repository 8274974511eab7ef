module extauthz.dev/tests/controlplane/h2spec

go 1.26.0

require github.com/summerwind/h2spec v2.2.1+incompatible
