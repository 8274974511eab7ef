module extauthz.dev/tests/controlplane/istiod-1.30

go 1.26.0

require istio.io/istio v0.0.0-20260423205519-b01690e6db7d

replace (
	github.com/agentgateway/agentgateway/api => github.com/agentgateway/agentgateway/api v0.0.0-20260501213430-773586679f1c
	github.com/envoyproxy/go-control-plane/contrib => github.com/envoyproxy/go-control-plane/contrib v1.36.1-0.20260729145720-a2d8c7492908
	github.com/envoyproxy/go-control-plane/envoy => github.com/envoyproxy/go-control-plane/envoy v1.39.0
	istio.io/api => istio.io/api v1.30.0
	istio.io/client-go => istio.io/client-go v1.30.0
)
