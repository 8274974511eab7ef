module extauthz.dev/tests/controlplane/metrics-server

go 1.26.0

require sigs.k8s.io/metrics-server v0.8.0
