//go:build tools

// Package metricsserver keeps the main packages in go.mod.
package metricsserver

import (
	_ "sigs.k8s.io/metrics-server/cmd/metrics-server"
)
