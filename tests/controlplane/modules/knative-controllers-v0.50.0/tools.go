//go:build tools

// Package controllers keeps the main packages in go.mod.
package controllers

import (
	_ "knative.dev/serving/cmd/activator"
	_ "knative.dev/serving/cmd/controller"
	_ "knative.dev/serving/cmd/webhook"
)
