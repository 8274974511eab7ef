//go:build tools

// Package knative keeps the main package in go.mod.
package knative

import _ "knative.dev/serving/cmd/autoscaler"
