// Package serving runs an ext_authz server of one core on a free port, as the gate's own Envoy configuration wants one:
// each answer has a decision id, and what Envoy tells of how requests ended is read and dropped.
package serving

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"runtime"

	accesslog "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
)

// Check answers one request.
type Check func(context.Context, *auth.CheckRequest) (*auth.CheckResponse, error)

type authorizer struct {
	auth.UnimplementedAuthorizationServer
	check Check
}

func (a authorizer) Check(ctx context.Context, request *auth.CheckRequest) (*auth.CheckResponse, error) {
	return a.check(ctx, request)
}

type drop struct {
	accesslog.UnimplementedAccessLogServiceServer
}

func (drop) StreamAccessLogs(stream accesslog.AccessLogService_StreamAccessLogsServer) error {
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return stream.SendAndClose(&accesslog.StreamAccessLogsResponse{})
		} else if err != nil {
			return err
		}
	}
}

var decided = &structpb.Struct{Fields: map[string]*structpb.Value{"decision_id": structpb.NewStringValue("1")}}

// Allowed is the answer that lets a request pass.
func Allowed() *auth.CheckResponse {
	return &auth.CheckResponse{
		Status:          &status.Status{Code: int32(codes.OK)},
		HttpResponse:    &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{}},
		DynamicMetadata: decided,
	}
}

// Denied is the answer that refuses one, with the reason.
func Denied(reason string) *auth.CheckResponse {
	denied := &auth.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode_Forbidden}, Body: reason}
	return &auth.CheckResponse{
		Status:          &status.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse:    &auth.CheckResponse_DeniedResponse{DeniedResponse: denied},
		DynamicMetadata: decided,
	}
}

// Run serves until it is ended. It prints its port.
func Run(check Check) {
	runtime.GOMAXPROCS(1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	auth.RegisterAuthorizationServer(server, authorizer{check: check})
	accesslog.RegisterAccessLogServiceServer(server, drop{})
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.Serve(listener))
}
