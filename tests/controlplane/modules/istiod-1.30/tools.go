//go:build tools

// Package istiod keeps the main package in go.mod.
package istiod

import _ "istio.io/istio/pilot/cmd/pilot-discovery"
