{{/* Gate and Envoy in an autoscaler's own pod: a unix socket between them, and no network to the gate. The autoscaler
keeps its in-cluster configuration: two variables lead it to Envoy, and the volume with its token has Envoy's authority
in place of the cluster's. */}}

{{/* Envoy's bootstrap, and a file for each certificate that it names. */}}
{{- define "extauthz.beside.files" -}}
{{- $profile := (include "extauthz.autoscaler" . | fromYaml).profile }}
{{- $bootstrap := .Values.envoy.bootstrap | default (.Files.Get (printf "envoy/%s.yaml" $profile)) }}
{{- dict "envoy.yaml" ($bootstrap | replace "release-namespace" .Release.Namespace)
         "serving.yaml" (.Files.Get "envoy/serving.yaml")
         "apiserver-ca.yaml" (.Files.Get "envoy/apiserver-ca.yaml") | toYaml }}
{{- end }}

{{/* Envoy reads its bootstrap once: another one is another pod. */}}
{{- define "extauthz.beside.annotations" -}}
extauthz.dev/envoy-config: {{ include "extauthz.beside.files" . | sha256sum | trunc 16 | quote }}
{{- end }}

{{/* What the autoscaler's own container needs. */}}
{{- define "extauthz.beside.led" -}}
env:
  - {name: KUBERNETES_SERVICE_HOST, value: 127.0.0.1}
  - {name: KUBERNETES_SERVICE_PORT, value: "6443"}
volumeMounts:
  - {name: extauthz-api-access, mountPath: {{ include "extauthz.apiAccess" . }}, readOnly: true}
{{- end }}

{{/* Envoy is there before all others start, and stays (KEP-753). */}}
{{- define "extauthz.beside.envoy" -}}
name: extauthz-envoy
image: {{ .Values.envoy.image | quote }}
args: [--config-path=/etc/extauthz/envoy/envoy.yaml, --concurrency=2]
restartPolicy: Always
resources: {{- toYaml .Values.envoy.resources | nindent 2 }}
securityContext: {{- include "extauthz.lockedDown" . | nindent 2 }}
volumeMounts:
  - {name: extauthz-envoy, mountPath: /etc/extauthz/envoy, readOnly: true}
  - {name: extauthz-tls, mountPath: /etc/extauthz/tls, readOnly: true}
  - {name: extauthz-authority, mountPath: {{ include "extauthz.apiAccess" . }}, readOnly: true}
  - {name: extauthz-socket, mountPath: /run/extauthz, readOnly: true}
{{- end }}

{{/* Without a readiness probe: where it does not run, growth is refused, and the autoscaler goes on with the rest. */}}
{{- define "extauthz.beside.gate" -}}
name: extauthz-gate
{{ include "extauthz.gate" . }}
volumeMounts:
  - {name: extauthz-socket, mountPath: /run/extauthz}
{{- end }}

{{- define "extauthz.beside.volumes" -}}
# What the API server's admission adds (TokenVolumeSource), but for the authority.
- name: extauthz-api-access
  projected:
    defaultMode: 0644
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - secret:
          name: {{ include "extauthz.secret" . }}
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]
- name: extauthz-tls
  secret: {secretName: {{ include "extauthz.secret" . }}}
- name: extauthz-envoy
  configMap: {name: extauthz-envoy}
# The cluster's authority without a token: Envoy passes on the autoscaler's.
- name: extauthz-authority
  configMap: {name: kube-root-ca.crt}
- name: extauthz-socket
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}
