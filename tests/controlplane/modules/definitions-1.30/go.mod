module extauthz.dev/tests/controlplane/definitions-1.30

go 1.26.0

require k8s.io/apiextensions-apiserver v0.30.14
