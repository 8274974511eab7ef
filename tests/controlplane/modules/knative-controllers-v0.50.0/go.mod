module extauthz.dev/tests/controlplane/knative-controllers

go 1.26.0

require knative.dev/serving v0.50.0
