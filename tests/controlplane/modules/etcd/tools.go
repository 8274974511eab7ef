//go:build tools

// Package etcd keeps the main package in go.mod.
package etcd

import _ "go.etcd.io/etcd/server/v3"
