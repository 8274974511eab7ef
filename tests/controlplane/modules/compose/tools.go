//go:build tools

// Package compose keeps the main package in go.mod.
package compose

import _ "github.com/docker/compose/v2/cmd"
