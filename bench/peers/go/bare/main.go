// Bare is the least that an ext_authz server in Go can be: it allows whatever it is asked about.
package main

import (
	"context"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"extauthz.dev/bench/peers/serving"
)

func main() {
	serving.Run(func(context.Context, *auth.CheckRequest) (*auth.CheckResponse, error) {
		return serving.Allowed(), nil
	})
}
