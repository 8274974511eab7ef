module extauthz.dev/bench/peers

go 1.26.0

require (
	github.com/envoyproxy/go-control-plane/envoy v1.40.0
	github.com/open-policy-agent/opa v1.22.2
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.11
)
