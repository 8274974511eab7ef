// Command quantities records what Kubernetes itself answers for the cases in quantities.jsonl, quantities-printed.jsonl,
// footprints.jsonl and resized.jsonl: it reads cases (one JSON object a line) from standard input and writes them again with the answers.
// README.md says how to run it.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"sort"
	"strings"

	"gopkg.in/inf.v0"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsdefaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	evaluator "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/utils/clock"
	kjson "sigs.k8s.io/json"
)

// A Case is one line of any of the four files; which fields are given says which question it asks.
type Case struct {
	Name string `json:"name,omitempty"`

	// What does ParseQuantity read? Answered by Nanos and Canonical, or Error.
	Text      *string     `json:"text,omitempty"`
	Nanos     json.Number `json:"nanos,omitempty"`
	Canonical string      `json:"canonical,omitempty"`
	Huge      bool        `json:"huge,omitempty"`

	// How are Nanos printed in this format? Answered by Prints.
	Format resource.Format `json:"format,omitempty"`
	Prints string          `json:"prints,omitempty"`

	// What does one pod of this template cost? Answered by Costs or Error, and Refused.
	Tree        json.RawMessage        `json:"tree,omitempty"`
	LimitRanges []json.RawMessage      `json:"limitRanges,omitempty"`
	Costs       map[string]json.Number `json:"costs,omitempty"`
	Refused     []string               `json:"refused,omitempty"`

	// What does this Pod, with its status, cost? Answered by Costs.
	Pod json.RawMessage `json:"pod,omitempty"`

	Error string `json:"error,omitempty"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var c Case
		decoder := json.NewDecoder(bytes.NewReader(in.Bytes()))
		decoder.UseNumber()
		must(decoder.Decode(&c))
		answer(&c)
		must(out.Encode(c))
	}
	must(in.Err())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func answer(c *Case) {
	c.Error = ""
	switch {
	case c.Text != nil:
		read(c)
	case c.Format != "":
		nanos, _ := new(big.Int).SetString(c.Nanos.String(), 10)
		c.Prints = resource.NewDecimalQuantity(*inf.NewDecBig(nanos, 9), c.Format).String()
	case c.Pod != nil:
		pod := &v1.Pod{}
		must(kjson.UnmarshalCaseSensitivePreserveInts(c.Pod, pod))
		c.Costs = costsOf(usageOf(pod))
	default:
		c.Costs, c.Refused = nil, nil
		if err := footprint(c); err != nil {
			c.Error = err.Error()
		}
	}
}

// read asks as Quantity.UnmarshalJSON does for a string.
func read(c *Case) {
	c.Nanos, c.Canonical, c.Huge = "", "", false
	quantity, err := resource.ParseQuantity(strings.TrimSpace(*c.Text))
	if err != nil {
		c.Error = err.Error()
		return
	}
	if !quantity.IsZero() && quantity.AsDec().Scale() < -200 {
		c.Huge = true // too long to print
		return
	}
	c.Canonical = quantity.String()
	c.Nanos = nanosOf(quantity)
}

func nanosOf(quantity resource.Quantity) json.Number {
	if quantity.IsZero() {
		return "0"
	}
	rounded := new(inf.Dec).Round(quantity.AsDec(), 9, inf.RoundExact)
	if rounded == nil {
		panic("finer than a nano: " + quantity.String())
	}
	return json.Number(rounded.UnscaledBig().String())
}

// workload is the tree that extauthz.core.footprint.per_pod takes.
type workload struct {
	Template             v1.PodTemplateSpec         `json:"template"`
	VolumeClaimTemplates []v1.PersistentVolumeClaim `json:"volumeClaimTemplates"`
}

// footprint does what happens between the write of a StatefulSet and the charge of its pod and claims to a
// ResourceQuota: decode, default, validate, make the pod, default, LimitRanger, evaluate.
func footprint(c *Case) error {
	var tree workload
	if err := kjson.UnmarshalCaseSensitivePreserveInts(c.Tree, &tree); err != nil {
		return err
	}
	set := &appsv1.StatefulSet{}
	set.Name, set.Namespace = "web", "default"
	set.Spec.Template, set.Spec.VolumeClaimTemplates = tree.Template, tree.VolumeClaimTemplates
	appsdefaults.SetObjectDefaults_StatefulSet(set)
	internal := &apps.StatefulSet{}
	must(appsdefaults.Convert_v1_StatefulSet_To_apps_StatefulSet(set, internal, nil))
	for _, err := range appsvalidation.ValidateStatefulSet(internal, corevalidation.PodValidationOptions{PodLevelResourcesEnabled: true}) {
		if strings.Contains(err.Field, "resources") || strings.Contains(err.Field, "overhead") {
			c.Refused = append(c.Refused, err.Error())
		}
	}
	sort.Strings(c.Refused) // validation goes over maps
	usage, err := podUsage(set, c.LimitRanges)
	if err != nil {
		return err
	}
	claims := set.Spec.VolumeClaimTemplates
	for _, volume := range set.Spec.Template.Spec.Volumes {
		if volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil {
			claim := volume.Ephemeral.VolumeClaimTemplate
			claims = append(claims, v1.PersistentVolumeClaim{ObjectMeta: claim.ObjectMeta, Spec: claim.Spec})
		}
	}
	for i := range claims {
		coredefaults.SetObjectDefaults_PersistentVolumeClaim(&claims[i])
		cost, err := evaluator.NewPersistentVolumeClaimEvaluator(nil).Usage(&claims[i])
		must(err)
		usage = quota.Add(usage, cost)
	}
	c.Costs = costsOf(usage)
	return nil
}

func costsOf(usage v1.ResourceList) map[string]json.Number {
	costs := map[string]json.Number{}
	for name, quantity := range usage {
		costs[string(name)] = nanosOf(quantity)
	}
	return costs
}

// usageOf is what ResourceQuota charges for a Pod that is there.
func usageOf(pod *v1.Pod) v1.ResourceList {
	coredefaults.SetObjectDefaults_Pod(pod)
	internal := &core.Pod{}
	must(coredefaults.Convert_v1_Pod_To_core_Pod(pod, internal, nil))
	usage, err := evaluator.PodUsageFunc(internal, clock.RealClock{})
	must(err)
	return usage
}

// podUsage is the highest cost over both orders in which LimitRanger may go through two LimitRanges.
func podUsage(set *appsv1.StatefulSet, ranges []json.RawMessage) (v1.ResourceList, error) {
	var highest v1.ResourceList
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		pod := &v1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
		coredefaults.SetObjectDefaults_Pod(pod)
		internal := &core.Pod{}
		must(coredefaults.Convert_v1_Pod_To_core_Pod(pod, internal, nil))
		for _, index := range order {
			if index >= len(ranges) {
				continue
			}
			limitRange := &v1.LimitRange{}
			if err := kjson.UnmarshalCaseSensitivePreserveInts(ranges[index], limitRange); err != nil {
				return nil, fmt.Errorf("limit range: %w", err)
			}
			coredefaults.SetObjectDefaults_LimitRange(limitRange)
			must(limitranger.PodMutateLimitFunc(limitRange, internal))
		}
		usage, err := evaluator.PodUsageFunc(internal, clock.RealClock{})
		must(err)
		highest = quota.Max(highest, usage)
	}
	return highest, nil
}
