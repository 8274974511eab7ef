// Decider asks Knative's own decider about PodAutoscalers, without a cluster.
//
// In: one JSON object a line with a PodAutoscaler, the data of config-autoscaler, and looks: at which second, how many
// pods are ready, and what both windows measure. Out: a line of what it made of the settings, and of each look.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1alpha1 "knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
	"knative.dev/serving/pkg/autoscaler/config"
	"knative.dev/serving/pkg/reconciler/autoscaling/kpa/resources"
	aresources "knative.dev/serving/pkg/reconciler/autoscaling/resources"
)

type look struct {
	At     float64
	Ready  int
	Stable float64
	Panic  float64
}

type question struct {
	Autoscaler autoscalingv1alpha1.PodAutoscaler
	Config     map[string]string
	Looks      []look
}

type answer struct {
	Error      string
	Target     float64
	Total      float64
	Least      int32
	Most       int32
	Initial    int32
	StableS    float64
	PanicS     float64
	DelayS     float64
	Activation int32
	Counts     []int32
}

// stand answers what a look says.
type stand struct{ now look }

func (s *stand) ReadyCount() (int, error)    { return s.now.Ready, nil }
func (s *stand) NotReadyCount() (int, error) { return 0, nil }

func (s *stand) StableAndPanicConcurrency(types.NamespacedName, time.Time) (float64, float64, error) {
	return s.now.Stable, s.now.Panic, nil
}

func (s *stand) StableAndPanicRPS(types.NamespacedName, time.Time) (float64, float64, error) {
	return s.now.Stable, s.now.Panic, nil
}

func decided(asked question) answer {
	cluster, err := config.NewConfigFromMap(asked.Config)
	if err != nil {
		return answer{Error: err.Error()}
	}
	pa := &asked.Autoscaler
	decider := resources.MakeDecider(pa, cluster)
	metric := aresources.MakeMetric(pa, "", cluster)
	least, most := pa.ScaleBounds(cluster)
	found := answer{
		Target: decider.Spec.TargetValue, Total: decider.Spec.TotalValue, Least: least, Most: most,
		Initial: decider.Spec.InitialScale, StableS: metric.Spec.StableWindow.Seconds(),
		PanicS: metric.Spec.PanicWindow.Seconds(), DelayS: decider.Spec.ScaleDownDelay.Seconds(),
		Activation: decider.Spec.ActivationScale,
	}
	said := &stand{}
	if len(asked.Looks) > 0 {
		said.now = asked.Looks[0]
	}
	scaler := newScaler(pa, said, &decider.Spec)
	start := time.Now()
	for _, one := range asked.Looks {
		said.now = one
		result := scaler.Scale(zap.NewNop().Sugar(), start.Add(time.Duration(one.At*float64(time.Second))))
		found.Counts = append(found.Counts, result.DesiredPodCount)
	}
	return found
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		said, err := json.Marshal(decided(asked))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(string(said))
	}
}
