//go:build tools

// Package coredns keeps the main packages in go.mod.
package coredns

import (
	_ "github.com/coredns/coredns"
)
