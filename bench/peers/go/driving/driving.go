// Package driving is what both clients share.
package driving

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log"
	"os"
	"slices"
)

// Read reads a JSON list from a file.
func Read[T any](file string) []T {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var found []T
	if err := json.Unmarshal(text, &found); err != nil {
		log.Fatal(err)
	}
	return found
}

// Trust is a configuration that trusts an authority, given as a PEM file.
func Trust(file string) *tls.Config {
	pem, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: authorities}
}

// Flat is one list of all that the clients have measured; empty, not null, if that is nothing.
func Flat(each [][]float64) []float64 {
	return append([]float64{}, slices.Concat(each...)...)
}

// Tell prints what was found, as JSON.
func Tell(found map[string]any) {
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}
