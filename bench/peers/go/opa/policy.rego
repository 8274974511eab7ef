# The question that the gate answers, as a policy: does the growth of a write to a scale fit what the quota of its
# namespace leaves? It reads the bodies of both autoscalers. It remembers nothing: what it allows is not charged.
package quota

parts := split(input.path, "/")

namespace := parts[5]

workload := data.workloads[namespace][parts[7]]

body := json.unmarshal(input.body)

asked := body.spec.replicas if is_object(body)

asked := patch.value if {
	is_array(body)
	some patch in body
	patch.path == "/spec/replicas"
}

growth := asked - workload.replicas

quota := data.quotas[data.namespaces[namespace]]

denials contains reason if {
	growth > 0
	some key, amount in workload.pod
	wanted := quota.used[key] + (growth * amount)
	wanted > quota.hard[key]
	reason := sprintf("%s: %v used and asked, of %v", [key, wanted, quota.hard[key]])
}
