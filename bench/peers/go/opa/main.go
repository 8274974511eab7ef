// Opa is an ext_authz server around OPA's evaluator: it asks the policy beside it, and does nothing else. Argument: a
// JSON file, the policy's data.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"log"
	"os"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"extauthz.dev/bench/peers/serving"
)

//go:embed policy.rego
var policy string

func main() {
	query := prepared(os.Args[1])
	serving.Run(func(ctx context.Context, request *auth.CheckRequest) (*auth.CheckResponse, error) {
		http := request.GetAttributes().GetRequest().GetHttp()
		input := map[string]any{"path": http.GetPath(), "body": string(http.GetRawBody())}
		found, err := query.Eval(ctx, rego.EvalInput(input))
		if err != nil {
			return nil, err
		}
		reasons := found[0].Expressions[0].Value.([]any)
		if len(reasons) == 0 {
			return serving.Allowed(), nil
		}
		return serving.Denied(reasons[0].(string)), nil
	})
}

func prepared(file string) rego.PreparedEvalQuery {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		log.Fatal(err)
	}
	// Values are kept as the evaluator wants them: the quickest of its stores.
	store := inmem.NewFromObjectWithOpts(data, inmem.OptReturnASTValuesOnRead(true))
	query, err := rego.New(
		rego.Query("data.quota.denials"), rego.Module("policy.rego", policy), rego.Store(store),
	).PrepareForEval(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	return query
}
