//go:build tools

// Package apiserver keeps the server's main package in go.mod.
package apiserver

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
