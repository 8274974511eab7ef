{{/* What autoscalers' projects ship: config/manager/manager.yaml of kedacore/keda, and
config/core/deployments/autoscaler.yaml of knative/serving. The last is ours. */}}
{{- define "extauthz.autoscalers" -}}
keda: {deployment: keda-operator, container: keda-operator, account: keda-operator, profile: autoscaler}
knative: {deployment: autoscaler, container: autoscaler, account: controller, profile: autoscaler}
hpa-controller:
  deployment: extauthz-hpa-controller
  container: hpa-controller
  account: extauthz-hpa-controller
  profile: scale
{{- end }}

{{/* The autoscaler that the gate is beside, as YAML; {} if it is behind a Service. */}}
{{- define "extauthz.autoscaler" -}}
{{- get (include "extauthz.autoscalers" . | fromYaml) .Values.place | default dict | toYaml }}
{{- end }}

{{/* Of every object. */}}
{{- define "extauthz.labels" -}}
app.kubernetes.io/name: extauthz
app.kubernetes.io/part-of: extauthz
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "extauthz.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}
{{- else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "extauthz.secret" -}}
{{- .Values.tls.secret | default (ternary "extauthz-tls" "extauthz-apiserver" (eq .Values.place "service")) }}
{{- end }}

{{/* Whether the gates make the webhook's certificate. */}}
{{- define "extauthz.selfSigned" -}}
{{- and .Values.webhook.enabled (eq .Values.webhook.certificates "self-signed") }}
{{- end }}

{{/* Whether a gate behind a Service shows a certificate of tls.secret. */}}
{{- define "extauthz.showsSecret" -}}
{{- or .Values.grpc.enabled .Values.api.enabled (ne (include "extauthz.selfSigned" .) "true") }}
{{- end }}

{{/* Where client-go looks for token and authority (rest.InClusterConfig). */}}
{{- define "extauthz.apiAccess" -}}
/var/run/secrets/kubernetes.io/serviceaccount
{{- end }}

{{/* What the Pod Security Standard "restricted" asks of a container, and a root file system that stays as it is. Gate
and Envoy in one pod are the same user, so that the socket between them is theirs alone. */}}
{{- define "extauthz.lockedDown" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The gate's container, but for its name and servers. */}}
{{- define "extauthz.gate" -}}
image: {{ include "extauthz.image" . | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
command: [extauthz, serve]
args:
  - --quotas=kubernetes
  - --state=kubernetes
  - --ledger={{ .Values.ledger }}
{{- if eq .Values.place "service" }}
  - --grpc={{ ternary ":9191" "off" .Values.grpc.enabled }}
  - --http=:9192
{{- if not (hasKey .Values.settings "http-names") }}
  - --http-names=extauthz.{{ .Release.Namespace }}.svc,extauthz.{{ .Release.Namespace }},extauthz
{{- end }}
{{- if .Values.grpc.enabled }}
  - --tls-cert=/etc/extauthz/tls/tls.crt
  - --tls-client-ca=/etc/extauthz/tls/ca.crt
{{- end }}
{{- if .Values.webhook.enabled }}
  - --webhook=:9443
{{- if ne (include "extauthz.selfSigned" .) "true" }}
  - --webhook-cert=/etc/extauthz/tls/tls.crt
{{- end }}
{{- if .Values.webhook.clientCASecret }}
  - --webhook-client-ca=/etc/extauthz/webhook-clients/ca.crt
{{- end }}
{{- end }}
{{- if .Values.api.enabled }}
  - --api=:9444
  - --api-cert=/etc/extauthz/tls/tls.crt
{{- if .Values.api.clientCASecret }}
  - --api-client-ca=/etc/extauthz/api/ca.crt
{{- end }}
{{- end }}
{{- with .Values.record }}
{{- if .enabled }}
  - --record=/var/lib/extauthz/record
  - --record-max-bytes={{ .maxBytes }}
{{- end }}
{{- end }}
{{- else }}
  - --grpc=unix:/run/extauthz/gate.sock
  - --http=:9192
{{- end }}
{{- if ne .Values.mode "enforce" }}
  - --mode={{ .Values.mode }}
{{- end }}
{{- with .Values.objects }}
  - --objects={{ . }}
{{- end }}
{{- if ne .Values.logLevel "info" }}
  - --log-level={{ .Values.logLevel }}
{{- end }}
{{- range $name, $value := .Values.settings }}
  - {{ printf "--%s=%v" $name (kindIs "map" $value | ternary (toJson $value) $value) | quote }}
{{- end }}
# The first lists of a large cluster take a while; until then the gate lives, and is not ready.
livenessProbe:
  httpGet: {path: /healthz, port: 9192}
  periodSeconds: 10
  failureThreshold: 3
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext: {{- include "extauthz.lockedDown" . | nindent 2 }}
{{- end }}

{{/* Where its pods run. */}}
{{- define "extauthz.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
