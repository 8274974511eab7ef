//go:build tools

// Package certmanager keeps the module in go.mod, of which only the definitions of its resources are wanted.
package certmanager

import _ "github.com/cert-manager/cert-manager/pkg/apis/certmanager"
