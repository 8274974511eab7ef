module extauthz.dev/tests/controlplane/decider

go 1.26.0

require knative.dev/serving v0.42.2
