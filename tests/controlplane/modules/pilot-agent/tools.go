//go:build tools

// Package agent keeps the main package in go.mod.
package agent

import _ "istio.io/istio/pilot/cmd/pilot-agent"
