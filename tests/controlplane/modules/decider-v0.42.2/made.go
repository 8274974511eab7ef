package main

import (
	"context"

	autoscalingv1alpha1 "knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
	"knative.dev/serving/pkg/autoscaler/scaling"
)

func newScaler(pa *autoscalingv1alpha1.PodAutoscaler, said *stand, spec *scaling.DeciderSpec) scaling.UniScaler {
	return scaling.New(context.Background(), pa.Namespace, pa.Name, said, said, spec)
}
